package workload

import _ "github.com/neuroshard/neuroshard/internal/fixedseed"
