from .matrices import (
    FloatArray as FloatArray,
    canonical as canonical,
    check_magnitude as check_magnitude,
    far_middle as far_middle,
    joint_distribution as joint_distribution,
    row_hashes as row_hashes,
    symmetry_index as symmetry_index,
    without_offset as without_offset,
)
from .pictures import (
    Descriptors as Descriptors,
    Patches as Patches,
    PatchKind as PatchKind,
    eight_bits as eight_bits,
    thumbnail as thumbnail,
)
from .preparing import (
    Encoding as Encoding,
    Prepare as Prepare,
)
from .rows import (
    JudgedTriplets as JudgedTriplets,
    Judgements as Judgements,
    LabelledRows as LabelledRows,
    Labels as Labels,
    Pixels as Pixels,
    Ratings as Ratings,
    Rows as Rows,
    checked_labels as checked_labels,
    class_labels as class_labels,
)
from .scaling import Scaling as Scaling
