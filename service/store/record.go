package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/neuroshard/neuroshard/unit"
)

// maxRecord is the largest limit of a record: SQLite stores at most 1 GB in one row.
const maxRecord = 512 * unit.MiB

// maxText is the most bytes of an id, a name, a digest, a model or a tool.
const maxText = 200

// Record is one finished plan with all that an answer about the plan needs.
type Record struct {
	// ID is the plan's id, lower-case hexadecimal digits: the same request has the same id.
	ID string
	// Name is the name of the model that the plan is for, empty if none was stated. It has
	// no control characters and at most 200 bytes.
	Name string
	// Digest is plan.Digest of the problem, Model the id of the cost model, and Tool the
	// version of the program that made the plan.
	Digest, Model, Tool string
	// Created is when the plan was made. It is stored to the nanosecond and comes back in UTC.
	Created time.Time
	// Tables and Devices are the numbers of tables and devices of the problem.
	Tables, Devices int
	// Cost is the predicted cost of the plan, a finite number.
	Cost unit.Millis
	// Plan, Problem and Result are JSON texts, which the store does not read. Plan is
	// required, the others may be empty.
	Plan, Problem, Result []byte
}

const (
	getText = `SELECT p.digest, p.model, p.tool, p.created, p.tables, p.devices, p.cost, p.sum, p.plan, p.problem, p.result,
	coalesce((SELECT name FROM history WHERE plan = p.id ORDER BY seq DESC LIMIT 1), '') FROM plans p WHERE p.id = ?`
	insertText = `INSERT INTO plans (id, digest, model, tool, created, tables, devices, cost, sum, plan, problem, result)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING 1`
	existsText     = "SELECT 1 FROM plans WHERE id = ?"
	deletePlanText = "DELETE FROM plans WHERE id = ?"
)

// checkRecord returns all faults of a record whose JSON texts may take limit bytes.
func checkRecord(r Record, limit unit.Bytes) error {
	faults := []error{
		checkID(r.ID), checkText("name", r.Name), checkText("digest", r.Digest),
		checkText("model", r.Model), checkText("tool", r.Tool),
	}
	if y := r.Created.Year(); y < 1970 || y > 2200 {
		faults = append(faults, fmt.Errorf("the time %v is not set, or not between 1970 and 2200", r.Created))
	}
	if math.IsNaN(float64(r.Cost)) || math.IsInf(float64(r.Cost), 0) {
		faults = append(faults, fmt.Errorf("the cost is %v, not a finite number", float64(r.Cost)))
	}
	if len(r.Plan) == 0 {
		faults = append(faults, errors.New("the plan is empty"))
	}
	if size := unit.Bytes(len(r.Plan) + len(r.Problem) + len(r.Result)); size > limit {
		faults = append(faults, fmt.Errorf("%w: plan, problem and result take %v, and the limit is %v", ErrTooLarge, size, limit))
	}
	return errors.Join(faults...)
}

func checkID(id string) error {
	if id == "" || len(id) > maxText || strings.Trim(id, "0123456789abcdef") != "" {
		return errors.New("an id has lower-case hexadecimal digits only")
	}
	return nil
}

func checkText(what, text string) error {
	if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("the %s %.40q is longer than %d bytes, or has characters that cannot be printed", what, text, maxText)
	}
	return nil
}

// codec compresses and expands the JSON texts of records.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newCodec() (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(maxRecord)+1<<20))
	if err != nil {
		return nil, err
	}
	return &codec{encoder, decoder}, nil
}

func (c *codec) close() error {
	c.decoder.Close()
	return c.encoder.Close()
}

// encoded is a record as the columns of a row of plans, apart from its id.
type encoded struct {
	digest, model, tool       string
	created, tables, devices  int64
	cost                      float64
	sum                       []byte
	plan, problem, resultJSON []byte // compressed
}

func (c *codec) encode(r Record) encoded {
	e := encoded{
		digest: r.Digest, model: r.Model, tool: r.Tool,
		created: r.Created.UnixNano(), tables: int64(r.Tables), devices: int64(r.Devices), cost: float64(r.Cost),
		plan: c.encoder.EncodeAll(r.Plan, []byte{}), problem: c.encoder.EncodeAll(r.Problem, []byte{}), resultJSON: c.encoder.EncodeAll(r.Result, []byte{}),
	}
	e.sum = e.checksum(r.ID)
	return e
}

// decode returns the record of a row, without its name.
func (c *codec) decode(id string, e encoded) (Record, error) {
	if !bytes.Equal(e.sum, e.checksum(id)) {
		return Record{}, fmt.Errorf("%w: the checksum does not match", ErrDamaged)
	}
	r := Record{
		ID: id, Digest: e.digest, Model: e.model, Tool: e.tool,
		Created: time.Unix(0, e.created).UTC(), Tables: int(e.tables), Devices: int(e.devices), Cost: unit.Millis(e.cost),
	}
	for _, part := range []struct {
		from []byte
		to   *[]byte
	}{{e.plan, &r.Plan}, {e.problem, &r.Problem}, {e.resultJSON, &r.Result}} {
		text, err := c.decoder.DecodeAll(part.from, nil)
		if err != nil {
			return Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		*part.to = text
	}
	return r, nil
}

// checksum returns the first 16 bytes of a SHA-256 over the id and all columns but sum.
func (e *encoded) checksum(id string) []byte {
	h := sha256.New()
	write := func(b []byte) {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	for _, text := range []string{id, e.digest, e.model, e.tool} {
		write([]byte(text))
	}
	for _, number := range []uint64{uint64(e.created), uint64(e.tables), uint64(e.devices), math.Float64bits(e.cost)} {
		write(binary.LittleEndian.AppendUint64(nil, number))
	}
	for _, blob := range [][]byte{e.plan, e.problem, e.resultJSON} {
		write(blob)
	}
	return h.Sum(nil)[:16]
}

// values are the columns in the order of insertText.
func (e *encoded) values(id string) []any {
	return []any{id, e.digest, e.model, e.tool, e.created, e.tables, e.devices, e.cost, e.sum, e.plan, e.problem, e.resultJSON}
}

// pointers are the columns in the order of getText.
func (e *encoded) pointers() []any {
	return []any{&e.digest, &e.model, &e.tool, &e.created, &e.tables, &e.devices, &e.cost, &e.sum, &e.plan, &e.problem, &e.resultJSON}
}
