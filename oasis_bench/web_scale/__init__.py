"""The papers' web-scale experiment (JMLR 2010, section 5.2): trainings on millions of images."""
