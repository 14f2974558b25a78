"""A small cluster, a handful of jobs, and the story that `muster demo` tells about them."""
