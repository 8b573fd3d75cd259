"""What tests read: a table as text, its footnote marks, the files of a folder, a measure."""


def texts(table):
    """Return the rows of a table as text; bold cells have a star, footnote marks are left out."""
    return [[cell.text + "*" * cell.bold for cell in row] for row in table.cells]


def marks(table, column):
    """Return the footnote marks of a column, '' where a cell has none."""
    return [table.marks(row[column]) for row in table.cells]


def contents(folder):
    """Return the bytes of each file below a folder, by its path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def measured(run, measure="mAP", k=None, column="value", by="trial_id"):
    """Return the values of a measure, or its chance, by a column of its trials."""
    rows = run.measures[run.measures["measure"] == measure]
    rows = rows[rows["k"].isna() if k is None else rows["k"] == k]
    return rows.set_index(by)[column].astype(float)
