from .arrays import ArrayArchive as ArrayArchive
from .errors import (
    OutputError as OutputError,
    Progress as Progress,
    UsageError as UsageError,
    check_value as check_value,
    did_you_mean as did_you_mean,
    encodable as encodable,
    error_line as error_line,
    for_terminal as for_terminal,
    how_to_install as how_to_install,
    in_python as in_python,
    no_progress as no_progress,
    printable as printable,
    quoted as quoted,
    read_value as read_value,
    require_packages as require_packages,
    short_path as short_path,
    spelled as spelled,
    unknown_name as unknown_name,
    without_options as without_options,
)
from .files import (
    Folder as Folder,
    cache_home as cache_home,
    open_regular as open_regular,
    refuse_input as refuse_input,
    whole_file as whole_file,
)
from .machine import (
    PeakMemory as PeakMemory,
    Processes as Processes,
    adopt_orphans as adopt_orphans,
    describe_machine as describe_machine,
    die_with_parent as die_with_parent,
    kill_marked as kill_marked,
    n_cores as n_cores,
    processor_name as processor_name,
    require_memory as require_memory,
)
from .work import (
    THREAD_VARIABLES as THREAD_VARIABLES,
    derive_seed as derive_seed,
    n_blas_threads as n_blas_threads,
    one_blas_thread as one_blas_thread,
    shared as shared,
    side_by_side as side_by_side,
    slices as slices,
)
