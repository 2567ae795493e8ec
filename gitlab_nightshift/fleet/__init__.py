"""Many projects: find them, choose and start tonight's nights, and report on them."""
