package problem_test

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
