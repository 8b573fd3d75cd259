from .digits import Digits as Digits
from .judged_pictures import (
    MaterialAppearance as MaterialAppearance,
    OwnTriplets as OwnTriplets,
    SimilarityTriplets as SimilarityTriplets,
)
from .many_classes import (
    ManyClasses as ManyClasses,
)
from .picture_sets import (
    Caltech101 as Caltech101,
    Caltech256 as Caltech256,
    Corel5k as Corel5k,
    Corel5kCDs as Corel5kCDs,
    ImageFolder as ImageFolder,
    TinyImageNet as TinyImageNet,
)
from .releases import (
    MNIST as MNIST,
    TwentyNewsgroups as TwentyNewsgroups,
)
from .table_file import (
    Keel as Keel,
    TableFile as TableFile,
)
from .web_scale import (
    WebScale as WebScale,
)
