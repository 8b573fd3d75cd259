from .blocks import picture_histograms as picture_histograms
from .codebook_pictures import (
    pictures_of_source as pictures_of_source,
    teachers_of as teachers_of,
    without_copies as without_copies,
)
from .features_option import (
    HISTOGRAMS as HISTOGRAMS,
    SCALING as SCALING,
    VISTERMS as VISTERMS,
    asked_features as asked_features,
)
from .patches import (
    patch_options as patch_options,
    patches_of as patches_of,
)
from .picture_files import (
    Picture as Picture,
    PictureRows as PictureRows,
    Workers as Workers,
    check_side as check_side,
    fault_lines as fault_lines,
    hashed_pictures as hashed_pictures,
    pixels_of as pixels_of,
)
from .visterms import (
    VistermFeatures as VistermFeatures,
    visterm_counts as visterm_counts,
)
