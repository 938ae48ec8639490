// Prints the rows of a packed topic as JSON lines: go run . HOST:PORT fabric.pfc (see ../../decoding.md).
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"
)

const (
	headerBytes = 16
	recordBytes = 56 // of version 1; later ones only add to it
)

// Names is what the rows of a value share; fields that are left out here are skipped.
type Names struct {
	Source string   `msgpack:"source"`
	Epoch  string   `msgpack:"epoch"`
	Seq    int64    `msgpack:"seq"`
	Fabric string   `msgpack:"fabric"`
	Device string   `msgpack:"device"`
	Ports  []string `msgpack:"ports"`
}

// Row is one record with its names. A measure that is unknown is null.
type Row struct {
	Fabric   string `json:"fabric"`
	Source   string `json:"source"`
	Epoch    string `json:"epoch"`
	Device   string `json:"device"`
	Port     string `json:"port"`
	Seq      int64  `json:"seq"`
	TimeNs   int64  `json:"time_ns"`
	SeenNs   int64  `json:"seen_ns"`
	SpanNs   int64  `json:"span_ns"`
	Value    *int64 `json:"value"`
	Extra    *int64 `json:"extra"`
	Flow     uint64 `json:"flow"`
	Kind     uint8  `json:"kind"`
	Priority uint8  `json:"priority"`
	Side     uint8  `json:"side"`
	Quality  uint8  `json:"quality"`
}

// Decode returns the rows of one Kafka value.
func Decode(value []byte) ([]Row, error) {
	if len(value) < headerBytes || string(value[:4]) != "PTB1" {
		return nil, fmt.Errorf("not a packed value")
	}
	size := int(binary.LittleEndian.Uint16(value[4:]))
	count := int(binary.LittleEndian.Uint32(value[8:]))
	length := int(binary.LittleEndian.Uint32(value[12:]))
	start := headerBytes + (length+7)/8*8
	if size < recordBytes || len(value) != start+count*size {
		return nil, fmt.Errorf("%d bytes are not %d records of %d bytes", len(value), count, size)
	}
	var names Names
	if err := msgpack.Unmarshal(value[headerBytes:headerBytes+length], &names); err != nil {
		return nil, err
	}
	rows := make([]Row, count)
	for i := range rows {
		record := value[start+i*size:]
		number := func(offset int) int64 { return int64(binary.LittleEndian.Uint64(record[offset:])) }
		port := int(binary.LittleEndian.Uint16(record[50:]))
		if port >= len(names.Ports) {
			return nil, fmt.Errorf("port %d of %d names", port, len(names.Ports))
		}
		rows[i] = Row{
			Fabric: names.Fabric, Source: names.Source, Epoch: names.Epoch, Device: names.Device,
			Port: names.Ports[port], Seq: names.Seq + int64(i),
			TimeNs: number(0), SeenNs: number(8), SpanNs: number(16),
			Value: known(number(24)), Extra: known(number(32)), Flow: uint64(number(40)),
			Kind: record[52], Priority: record[53], Side: record[54], Quality: record[55],
		}
	}
	return rows, nil
}

func known(number int64) *int64 {
	if number == -1<<63 {
		return nil
	}
	return &number
}

// Patience is how long nothing may come before the program ends; one that goes on for ever has none.
const Patience = 10 * time.Second

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: decode HOST:PORT TOPIC")
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]), kgo.ConsumeTopics(os.Args[2]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // what steps write in transactions counts once it is committed
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	passedOver := 0
	defer func() { log.Printf("%d values passed over: they are not packed rows", passedOver) }()
	out := json.NewEncoder(os.Stdout)
	for {
		wait, cancel := context.WithTimeout(context.Background(), Patience)
		fetches := client.PollFetches(wait)
		cancel()
		if err := fetches.Err(); errors.Is(err, context.DeadlineExceeded) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			rows, err := Decode(record.Value)
			if err != nil {
				passedOver++ // anybody may put anything on a topic
				return
			}
			for _, row := range rows {
				if err := out.Encode(row); err != nil {
					log.Fatal(err)
				}
			}
		})
	}
}
