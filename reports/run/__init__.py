"""The report of one run: tables, figures, pictures, page, summary and exported files."""
