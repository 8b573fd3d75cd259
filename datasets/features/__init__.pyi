from .features_option import (
    VISTERMS as VISTERMS,
    asked_features as asked_features,
    feature_rows as feature_rows,
)
from .hand_made import HISTOGRAMS as HISTOGRAMS
from .patches import (
    patch_options as patch_options,
    patches_of as patches_of,
)
from .picture_files import (
    Picture as Picture,
    PictureRows as PictureRows,
    check_side as check_side,
    fault_lines as fault_lines,
    hashed_pictures as hashed_pictures,
    near_duplicates as near_duplicates,
    pixels_of as pixels_of,
    refuse_left_out as refuse_left_out,
)
from .visterms import (
    VistermFeatures as VistermFeatures,
    visterm_counts as visterm_counts,
)
