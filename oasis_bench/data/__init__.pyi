from .judgements import (
    JudgedTriplets as JudgedTriplets,
    Judgements as Judgements,
    Ratings as Ratings,
)
from .matrices import (
    FloatArray as FloatArray,
    basis_and_coordinates as basis_and_coordinates,
    canonical as canonical,
    canonical_csr as canonical_csr,
    coordinates as coordinates,
    joint_distribution as joint_distribution,
    relevance_factor as relevance_factor,
    symmetric_part as symmetric_part,
    symmetry_index as symmetry_index,
)
from .patches import Descriptors as Descriptors, Patches as Patches, PatchKind as PatchKind
from .pictures import caption as caption, thumbnail as thumbnail
from .preparing import (
    LEFT_OUT as LEFT_OUT,
    MUCH_MISSING as MUCH_MISSING,
    RARE as RARE,
    Encoding as Encoding,
    Prepare as Prepare,
    days_of as days_of,
    encode as encode,
    frame_of as frame_of,
    without_left_out as without_left_out,
    without_texts as without_texts,
)
from .rows import (
    KINDS as KINDS,
    PATCHES_AND_PIXELS as PATCHES_AND_PIXELS,
    LabelledRows as LabelledRows,
    Labels as Labels,
    Pixels as Pixels,
    Rows as Rows,
    check_items as check_items,
    check_magnitude as check_magnitude,
    checked_labels as checked_labels,
    class_labels as class_labels,
    far_middle as far_middle,
    row_hashes as row_hashes,
    warn_of_lost_digits as warn_of_lost_digits,
    without_offset as without_offset,
)
from .scaling import (
    KEEPS_ZEROS as KEEPS_ZEROS,
    SCALES_COLUMNS as SCALES_COLUMNS,
    SCALINGS as SCALINGS,
    STEPS as STEPS,
    Dense as Dense,
    Preparation as Preparation,
    learn_scaling as learn_scaling,
    learn_steps as learn_steps,
    prepared_by as prepared_by,
    refuse_scaling as refuse_scaling,
    scaling_of as scaling_of,
    scaling_words as scaling_words,
    unlike_scales as unlike_scales,
)
