from .cells import (
    MISSING as MISSING,
    NO_FEATURE as NO_FEATURE,
    bare_number as bare_number,
    kind_of as kind_of,
    number_pattern as number_pattern,
    number_reader as number_reader,
    text_of as text_of,
)
from .columns import (
    Found as Found,
    cell_in_row as cell_in_row,
    find_column as find_column,
    is_id as is_id,
)
from .frames import (
    frame_as_bytes as frame_as_bytes,
    read_frame as read_frame,
)
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
    PICTURE_FORMATS as PICTURE_FORMATS,
    Descriptors as Descriptors,
    Patches as Patches,
    PatchKind as PatchKind,
    rgb_of as rgb_of,
    thumbnail as thumbnail,
)
from .preparing import (
    Prepare as Prepare,
    ReadTable as ReadTable,
)
from .rows import (
    JudgedTriplets as JudgedTriplets,
    Judgements as Judgements,
    LabelledRows as LabelledRows,
    Labels as Labels,
    Pixels as Pixels,
    Ratings as Ratings,
    Rows as Rows,
    check_items as check_items,
    checked_labels as checked_labels,
    class_labels as class_labels,
)
from .scaling import (
    Scaling as Scaling,
    apply_steps as apply_steps,
    unlike_ranges as unlike_ranges,
)
from .schema import (
    Column as Column,
    Encoding as Encoding,
    Schema as Schema,
    table_of as table_of,
)
