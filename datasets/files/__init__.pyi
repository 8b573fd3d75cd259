from .download import (
    Archive as Archive,
    fetch as fetch,
    locate as locate,
)
from .local import (
    Arrays as Arrays,
    broken as broken,
    cache_key as cache_key,
    cached as cached,
    cannot_write as cannot_write,
    data_folder as data_folder,
    dataset_folder as dataset_folder,
    first_dozen as first_dozen,
    listed as listed,
    load_array as load_array,
    load_npy as load_npy,
    open_npz as open_npz,
    reason_of as reason_of,
    refuse_empty as refuse_empty,
    require_bytes as require_bytes,
)
