package autoshard

import "github.com/neuroshard/neuroshard/search/policy"

// Episode is the placing of one task's pieces, table after table, as the policy sees
// it. A piece is one table or several that stay together.
//
//	order -> observe piece 1 -> place it -> observe piece 2 -> place it -> ...
//
// Rows name vectors of tables, which Net.Embed made. Row 0 is the vector of a table whose
// features are all zero. In the frames, each device holds this table in addition to its own.
type Episode struct {
	pieces [][]int32 // rows of each piece
	gib    []float64 // of each piece
	order  []int32   // pieces, the most expensive first
	next   int       // place in order of the piece to be placed

	held   [][]int32 // rows of each device, without the zero row
	heldG  []float64 // GiB of each device
	load   []float32 // predicted cost and GiB of each device
	device []int32   // of each piece that is placed
}

// NewEpisode starts the episode of a task. pieces lists the rows of each piece, from 1 on,
// and gib the GiB of its weights. The episode keeps both.
func NewEpisode(net *Net, ws *Workspace, vectors []float32, pieces [][]int32, gib []float64, devices int) *Episode {
	return &Episode{
		pieces: pieces, gib: gib, order: byCost(net, ws, vectors, pieces),
		held: make([][]int32, devices), heldG: make([]float64, devices), load: make([]float32, 2*devices),
		device: make([]int32, len(pieces)),
	}
}

// byCost returns the pieces by falling predicted cost. Equal pieces keep their order.
func byCost(net *Net, ws *Workspace, vectors []float32, pieces [][]int32) []int32 {
	var single Lists
	for _, rows := range pieces {
		single.Add(rows...)
	}
	costs := make([]float32, len(pieces))
	net.Costs(ws, vectors, &single, costs)
	return policy.Falling(costs)
}

// Order is the order in which the pieces are placed. It must not be modified.
func (e *Episode) Order() []int32 { return e.order }

// Over reports whether all pieces are placed.
func (e *Episode) Over() bool { return e.next == len(e.order) }

// Placement returns the device of each piece, once all are placed. It is the episode's.
func (e *Episode) Placement() []int32 { return e.device }

// Held returns the rows of each device's tables. It is the episode's.
func (e *Episode) Held() [][]int32 { return e.held }

// skipTo leaves out the pieces before the given one, which no device has room for.
func (e *Episode) skipTo(piece int32) {
	for e.order[e.next] != piece {
		e.next++
	}
}

// Observe appends the frame of the piece to be placed.
func (e *Episode) Observe(f *Frames) {
	f.Current.Add(e.pieces[e.order[e.next]]...)
	for _, rows := range e.held {
		f.Held.Add(append([]int32{0}, rows...)...)
	}
	f.Share = append(f.Share, float32(float64(e.next)/float64(len(e.order))))
	f.Load = append(f.Load, e.load...)
	f.Reset = append(f.Reset, e.next == 0)
}

// Place puts the next piece on a device and predicts the device's cost again.
func (e *Episode) Place(net *Net, ws *Workspace, vectors []float32, device int) {
	piece := e.order[e.next]
	e.next++
	e.device[piece] = int32(device)
	e.held[device] = append(e.held[device], e.pieces[piece]...)
	e.heldG[device] += e.gib[piece]
	ws.one.Clear()
	ws.one.Add(e.held[device]...)
	net.Costs(ws, vectors, &ws.one, e.load[2*device:2*device+1])
	e.load[2*device+1] = float32(e.heldG[device])
}

// Overflow is the published reward of a plan that breaks a device's memory: minus the
// share of the memory by which the fullest device is over it.
func Overflow(memory, fullest float64) float64 { return (memory - fullest) / memory }
