from .command_words import without_options as without_options
from .errors import (
    OutputError as OutputError,
    UsageError as UsageError,
    nearest as nearest,
    unknown_name as unknown_name,
)
from .extras import TORCH as TORCH, require_packages as require_packages
from .files import (
    EXPORT as EXPORT,
    cache_home as cache_home,
    exporting_to as exporting_to,
    make_writable as make_writable,
    open_below as open_below,
    open_regular as open_regular,
    open_standard_descriptors as open_standard_descriptors,
    path_below as path_below,
    whole_file as whole_file,
    whole_folder as whole_folder,
    write_whole as write_whole,
)
from .linux import (
    adopt_orphans as adopt_orphans,
    die_first as die_first,
    die_with_parent as die_with_parent,
    has_gpu_driver as has_gpu_driver,
    limit_memory as limit_memory,
    oom_kills as oom_kills,
    scheduled_seconds as scheduled_seconds,
)
from .machine import (
    available_cores as available_cores,
    load_average as load_average,
    processor_name as processor_name,
    provenance as provenance,
)
from .memory import PeakMemory as PeakMemory, require_memory as require_memory
from .moved import moved_names as moved_names
from .npz import (
    ARRAY_KINDS as ARRAY_KINDS,
    HoldsObjectsError as HoldsObjectsError,
    open_array as open_array,
    open_stored as open_stored,
    read_array as read_array,
    write_array as write_array,
)
from .plain_text import (
    LONGEST_PATH as LONGEST_PATH,
    LONGEST_REASON as LONGEST_REASON,
    cut as cut,
    encodable as encodable,
    error_line as error_line,
    for_terminal as for_terminal,
    printable as printable,
    shown as shown,
)
from .processes import (
    bytes_below as bytes_below,
    cpu_seconds_below as cpu_seconds_below,
    exceeds as exceeds,
    kill_below as kill_below,
    kill_marked as kill_marked,
)
from .progress import Progress as Progress, no_progress as no_progress
from .sealed_arrays import (
    is_sealed as is_sealed,
    map_arrays as map_arrays,
    map_bytes as map_bytes,
    seal as seal,
    seal_arrays as seal_arrays,
)
from .seeds import derive_seed as derive_seed
from .shared_work import LastResults as LastResults, shared as shared, sharing as sharing
from .threads import (
    THREAD_VARIABLES as THREAD_VARIABLES,
    blas_threads as blas_threads,
    one_blas_thread as one_blas_thread,
    side_by_side as side_by_side,
    slices as slices,
)
from .values import (
    MOST as MOST,
    NEEDED as NEEDED,
    check_value as check_value,
    is_of as is_of,
    value_of_text as value_of_text,
)
