package search

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
