package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/neuroshard/neuroshard/unit"
)

// Memories states the memory of devices, or of hosts, one by one:
//
//	40GiB,80GiB,80GiB,80GiB     the memory of each, in order
//	0-3=40GiB                   the memory of some, by number
//	0=24GiB,4-7=40GiB
type Memories struct {
	// Sizes are the sizes, in the order of the text.
	Sizes []MemorySize
	// Numbered says that each size has its numbers, and that there may be devices without one.
	Numbered bool
}

// MemorySize is the memory of the devices, or hosts, from First to Last.
type MemorySize struct {
	First, Last int
	Size        unit.Bytes
}

// ParseMemories reads a text as Memories draws it. Each size needs its unit and is above 0 and at most
// MaxMemory.
func ParseMemories(text string) (Memories, error) {
	var m Memories
	parts := strings.Split(text, ",")
	m.Numbered = strings.Contains(parts[0], "=")
	next := 0
	for i, part := range parts {
		numbers, size, numbered := strings.Cut(strings.TrimSpace(part), "=")
		if numbered != m.Numbered {
			return Memories{}, fmt.Errorf("%.60q mixes sizes in order with sizes of numbered ones", text)
		}
		one := MemorySize{i, i, 0}
		if !numbered {
			size = numbers
		} else if first, last, err := parseRange(numbers); err != nil {
			return Memories{}, err
		} else {
			one.First, one.Last = first, last
		}
		var err error
		if one.Size, err = unit.ParseSize(strings.TrimSpace(size)); err != nil {
			return Memories{}, err
		}
		switch {
		case one.Size <= 0 || one.Size > MaxMemory:
			return Memories{}, fmt.Errorf("%v is not above 0 and at most %v", one.Size, MaxMemory)
		case one.First < next:
			return Memories{}, fmt.Errorf("the numbers of %.60q do not rise", text)
		case one.Last >= MaxDevices:
			return Memories{}, fmt.Errorf("%d is not below %d", one.Last, MaxDevices)
		}
		next = one.Last + 1
		m.Sizes = append(m.Sizes, one)
	}
	return m, nil
}

// parseRange reads FIRST-LAST, or one number.
func parseRange(text string) (first, last int, err error) {
	from, to, several := strings.Cut(strings.TrimSpace(text), "-")
	if !several {
		to = from
	}
	first, err = strconv.Atoi(strings.TrimSpace(from))
	if err == nil {
		last, err = strconv.Atoi(strings.TrimSpace(to))
	}
	if err != nil || first < 0 || last < first {
		return 0, 0, fmt.Errorf("%.60q is not a number such as 4, or two such as 0-3", text)
	}
	return first, last, nil
}

// All reports whether m states the memory of each of n devices or hosts.
func (m Memories) All(n int) bool {
	stated := 0
	for _, s := range m.Sizes {
		stated += s.Last - s.First + 1
	}
	return stated == n
}

// Of returns the memory of each of n devices or hosts. One that m does not state has its memory in the
// list before or, if that list does not have n entries, the usual memory. wrong says why m is not for
// n devices, and is empty if it is.
func (m Memories) Of(n int, before []unit.Bytes, usual unit.Bytes) (list []unit.Bytes, wrong string) {
	if len(m.Sizes) == 0 {
		return nil, ""
	}
	last := m.Sizes[len(m.Sizes)-1].Last
	switch {
	case !m.Numbered && len(m.Sizes) != n:
		return nil, fmt.Sprintf("%s stated for %d", howMany(len(m.Sizes)), n)
	case last >= n:
		return nil, fmt.Sprintf("number %d is not below %d", last, n)
	}
	if list = slices.Clone(before); len(list) != n {
		list = slices.Repeat([]unit.Bytes{usual}, n)
	}
	for _, s := range m.Sizes {
		for i := s.First; i <= s.Last; i++ {
			list[i] = s.Size
		}
	}
	return list, ""
}

// FormatMemories writes the memories of devices or hosts as ParseMemories reads them, each run of equal
// ones as FIRST-LAST=SIZE, with sizes rounded for people.
func FormatMemories(memories []unit.Bytes) string {
	var parts []string
	for i := 0; i < len(memories); {
		last := i
		for last+1 < len(memories) && memories[last+1] == memories[i] {
			last++
		}
		name := strconv.Itoa(i)
		if last > i {
			name += "-" + strconv.Itoa(last)
		}
		parts = append(parts, name+"="+memories[i].String())
		i = last + 1
	}
	return strings.Join(parts, ", ")
}

// howMany begins a sentence about n things: "1 is" or "2 are".
func howMany(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}
