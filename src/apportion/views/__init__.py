"""What plots and the report show, as plain arrays: looks of classes, runs of labels, a map."""
