"""Results of a study: tables, figures and the report page."""
