"""The tables of a run's SQLite file; `oasis_bench.store.run_file` writes and reads them."""

SCHEMA_VERSION = 6
"""Raised by one with every change of the tables, or of what the table `run` holds."""

TRIAL_TABLES = ("precision_at_k", "validation", "traces", "symmetry", "retrievals")
"""The tables with further rows of each trial."""

SCHEMA = """
CREATE TABLE run (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL               -- JSON
) STRICT;
CREATE TABLE trials (
    trial_id TEXT PRIMARY KEY,        -- hash of what decides the result (see plan.TrialSpec)
    run TEXT NOT NULL DEFAULT '',     -- the run that it was merged from; '' where not merged
    learner TEXT NOT NULL,            -- its label in this run
    algorithm TEXT NOT NULL,          -- its name in the registry
    dataset TEXT NOT NULL,
    subset TEXT NOT NULL,
    n_classes INTEGER NOT NULL,
    partition INTEGER NOT NULL,       -- from 0
    status TEXT NOT NULL CHECK (
        status IN ('ok', 'failed', 'crashed', 'timeout', 'out of memory', 'not applicable')
    ),
    reason TEXT,                      -- one line, where status is not ok
    traceback TEXT,
    params TEXT,                      -- JSON: the hyper-parameters of the final fit
    n_steps INTEGER,                  -- chosen or given; NULL where there are no steps
    n_train INTEGER NOT NULL,
    n_test INTEGER NOT NULL,
    n_features INTEGER NOT NULL,
    fit_seconds REAL,                 -- wall clock of the final fit alone
    fit_cpu_seconds REAL,
    fit_waiting_seconds REAL,         -- its threads waited for a core; NULL where not measurable
    fit_peak_bytes INTEGER,           -- above the start of the fit; NULL where not known
    selection_fit_seconds REAL,       -- inner folds: learning
    selection_score_seconds REAL,     -- inner folds: validation
    threads INTEGER NOT NULL,         -- the largest thread pool during the fit
    shared_cores INTEGER NOT NULL,    -- 1 where other trials ran at the same time
    processor TEXT,                   -- that of the final fit; NULL without a result
    mean_average_precision REAL,
    chance_level REAL,
    n_queries INTEGER,
    n_queries_left_out INTEGER,       -- test images without a relevant one
    symmetry_index REAL,              -- of W; NULL where there is none or it was not asked for
    finished TEXT NOT NULL            -- UTC, ISO 8601
) STRICT;
CREATE TABLE precision_at_k (
    trial_id TEXT NOT NULL REFERENCES trials,
    k INTEGER NOT NULL,
    precision REAL NOT NULL,
    PRIMARY KEY (trial_id, k)
) STRICT;
CREATE TABLE validation (             -- scores on the inner folds
    trial_id TEXT NOT NULL REFERENCES trials,
    params TEXT NOT NULL,             -- JSON
    n_steps INTEGER,
    fold INTEGER NOT NULL,
    mean_average_precision REAL NOT NULL
) STRICT;
CREATE TABLE retrievals (             -- what some queries retrieve, best first
    trial_id TEXT NOT NULL REFERENCES trials,
    query INTEGER NOT NULL,           -- row numbers of the data set
    rank INTEGER NOT NULL,            -- from 1
    retrieved INTEGER NOT NULL,
    relevant INTEGER NOT NULL,        -- 1 for a hit, 0 for a miss
    PRIMARY KEY (trial_id, query, rank)
) STRICT;
CREATE TABLE pictures (
    row INTEGER PRIMARY KEY,          -- of the data set
    caption TEXT NOT NULL,            -- its class, or its words
    thumbnail BLOB                    -- JPEG; NULL where the file could not be read
) STRICT;
CREATE TABLE traces (                 -- mAP along the steps, replayed off the clock
    trial_id TEXT NOT NULL REFERENCES trials,
    split TEXT NOT NULL CHECK (split IN ('train', 'test')),
    n_steps INTEGER NOT NULL,
    mean_average_precision REAL NOT NULL,
    PRIMARY KEY (trial_id, split, n_steps)
) STRICT;
CREATE TABLE symmetry (               -- of W along the same steps, for learners of x'Wy
    trial_id TEXT NOT NULL REFERENCES trials,
    n_steps INTEGER NOT NULL,
    symmetry_index REAL NOT NULL,     -- |(W + W')/2| / |W|, Frobenius norms
    PRIMARY KEY (trial_id, n_steps)
) STRICT;
"""
