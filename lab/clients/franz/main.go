// sweep ADDRESS: every request at every version that the broker takes, then records of all codecs; logs lines of JSON.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	recordsTopic = "orders"
	sweepTopic   = "sweep"
	group        = "billing"
)

type entry map[string]any

func told(what entry) {
	line, err := json.Marshal(what)
	must(err)
	fmt.Println("{\"what\":\"" + what["what"].(string) + "\"," + string(line[1:]))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// connection sends requests one by one, each in the version that it is set to.
type connection struct {
	net.Conn
	format *kmsg.RequestFormatter
	number int32
}

func dial(address string) *connection {
	raw, err := net.Dial("tcp", address)
	must(err)
	return &connection{raw, kmsg.NewRequestFormatter(kmsg.FormatterClientID("sweep")), 0}
}

func (c *connection) ask(request kmsg.Request) kmsg.Response {
	c.number++
	response, err := c.exchange(request)
	if err != nil {
		err = fmt.Errorf("%s v%d: %w", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	must(err)
	return response
}

func (c *connection) exchange(request kmsg.Request) (kmsg.Response, error) {
	if err := c.SetDeadline(time.Now().Add(40 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.Write(c.format.AppendRequest(nil, request, c.number)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, answer); err != nil {
		return nil, err
	}
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	head := 4
	if response.IsFlexible() && request.Key() != 18 {
		head = 5 // no tagged fields
	}
	return response, response.ReadFrom(answer[head:])
}

// sweep asks for everything that requests.go builds, at each version that broker and library share.
func sweep(address string, id [16]byte) {
	c := dial(address)
	defer c.Close()
	asked := kmsg.NewPtrApiVersionsRequest()
	for _, key := range c.ask(asked).(*kmsg.ApiVersionsResponse).ApiKeys {
		for version := key.MinVersion; version <= key.MaxVersion; version++ {
			request := build(key.ApiKey, version, id)
			if request == nil || version > request.MaxVersion() {
				break
			}
			request.SetVersion(version)
			c.ask(request)
			told(entry{"what": "done", "call": fmt.Sprintf("%s v%d", kmsg.NameForKey(key.ApiKey), version)})
		}
	}
}

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

// produce sends two records with a client for each version of Produce.
func produce(address string) {
	for version := int16(0); version <= 11; version++ {
		versions := kversion.V3_9_0()
		versions.SetMaxKeyVersion(0, version)
		versions.SetMaxKeyVersion(18, -1) // no question for what the broker has
		options := []kgo.Opt{
			kgo.SeedBrokers(address), kgo.ClientID("producer"), kgo.MaxVersions(versions),
			kgo.ProducerBatchCompression(codecs[int(version)%len(codecs)], kgo.NoCompression()),
		}
		if version < 3 {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		client, err := kgo.NewClient(options...)
		must(err)
		for index := 0; index < 2; index++ {
			value := fmt.Sprintf("order %d of Produce v%d, or less; order, order, order", index, version)
			record := &kgo.Record{Topic: recordsTopic, Key: []byte(fmt.Sprintf("key-%d", version)), Value: []byte(value)}
			stored, err := client.ProduceSync(context.Background(), record).First()
			must(err)
			log("produced", stored)
		}
		client.Close()
	}
}

func consume(address string, number int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.ClientID("consumer"), kgo.ConsumeTopics(recordsTopic), kgo.ConsumerGroup("readers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	)
	must(err)
	defer client.Close()
	for read := 0; read < number; {
		fetches := client.PollFetches(context.Background())
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			log("read", record)
			read++
		})
	}
	must(client.CommitUncommittedOffsets(context.Background()))
	told(entry{"what": "sent", "commands": []string{"OffsetCommit", "JoinGroup", "SyncGroup"}})
}

func log(what string, record *kgo.Record) {
	told(entry{
		"what": what, "topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
		"key": string(record.Key), "value": string(record.Value),
	})
}

func main() {
	address := os.Args[1]
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("admin"))
	must(err)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopics(context.Background(), 1, 1, nil, recordsTopic, sweepTopic)
	must(err)
	time.Sleep(time.Second)
	topics, err := admin.ListTopics(context.Background(), sweepTopic)
	must(err)
	client.Close()
	sweep(address, topics[sweepTopic].ID)
	produce(address)
	consume(address, 24)
}
