package main

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func text(s string) *string { return &s }

// build makes a request of a kind with something in its fields; nil: not one of a client.
func build(k, v int16, id [16]byte) kmsg.Request {
	name := fmt.Sprintf("sweep-%d-%d", k, v)
	switch k {
	case 1:
		r := kmsg.NewPtrFetchRequest()
		r.MaxWaitMillis = 100
		r.MinBytes = 1
		r.MaxBytes = 1 << 20
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = sweepTopic
		ft.TopicID = id
		for p := int32(0); p < 1; p++ {
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.Partition = p
			fp.PartitionMaxBytes = 100000
			fp.CurrentLeaderEpoch = -1
			ft.Partitions = append(ft.Partitions, fp)
		}
		r.Topics = append(r.Topics, ft)
		r.SessionEpoch = -1
		r.Rack = "rk"
		r.ReplicaID = -1
		return r
	case 2:
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID = -1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = sweepTopic
		for p := int32(0); p < 1; p++ {
			x := kmsg.NewListOffsetsRequestTopicPartition()
			x.Partition = p
			x.Timestamp = []int64{-1, -2, 1000}[p]
			x.MaxNumOffsets = 5
			rt.Partitions = append(rt.Partitions, x)
		}
		r.Topics = append(r.Topics, rt)
		return r
	case 3:
		r := kmsg.NewPtrMetadataRequest()
		for _, n := range []string{sweepTopic, name} {
			x := kmsg.NewMetadataRequestTopic()
			nn := n
			x.Topic = &nn
			r.Topics = append(r.Topics, x)
		}
		r.AllowAutoTopicCreation = false
		r.IncludeTopicAuthorizedOperations = true
		r.IncludeClusterAuthorizedOperations = true
		return r
	case 8:
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group = group
		r.Generation = -1
		x := kmsg.NewOffsetCommitRequestTopic()
		x.Topic = sweepTopic
		x.TopicID = id
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = 2
		p.Offset = int64(v)
		p.LeaderEpoch = 0
		p.Metadata = text("meta v" + strconv.Itoa(int(v)))
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 9:
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = group
		x := kmsg.NewOffsetFetchRequestTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0, 1, 2}
		r.Topics = append(r.Topics, x)
		r.RequireStable = true
		if v >= 8 {
			gg := kmsg.NewOffsetFetchRequestGroup()
			gg.Group = group
			y := kmsg.NewOffsetFetchRequestGroupTopic()
			y.Topic = sweepTopic
			y.TopicID = id
			y.Partitions = []int32{0, 1, 2}
			gg.Topics = append(gg.Topics, y)
			r.Groups = append(r.Groups, gg)
			g2 := kmsg.NewOffsetFetchRequestGroup()
			g2.Group = group + "-other"
			r.Groups = append(r.Groups, g2)
		}
		return r
	case 10:
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorKey = group
		r.CoordinatorKeys = []string{group, group + "2"}
		r.CoordinatorType = 0
		if v >= 1 && v%2 == 1 {
			r.CoordinatorType = 1
		}
		return r
	case 11:
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group = group + "j" + strconv.Itoa(int(v))
		r.SessionTimeoutMillis = 6000
		r.RebalanceTimeoutMillis = 1000
		r.ProtocolType = "consumer"
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		m := kmsg.NewConsumerMemberMetadata()
		m.Version = v % 4
		m.Topics = []string{sweepTopic}
		m.UserData = []byte("ud")
		p.Metadata = m.AppendTo(nil)
		r.Protocols = append(r.Protocols, p)
		if v >= 5 {
			r.InstanceID = text("inst")
		}
		if v >= 8 {
			r.Reason = text("because")
		}
		return r
	case 12:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group = group
		r.Generation = 3
		r.MemberID = "nobody"
		r.InstanceID = text("i")
		return r
	case 13:
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Group = group
		r.MemberID = "nobody"
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = "nobody"
		m.Reason = text("bye")
		r.Members = append(r.Members, m)
		return r
	case 14:
		r := kmsg.NewPtrSyncGroupRequest()
		r.Group = group
		r.Generation = 2
		r.MemberID = "ghost"
		r.ProtocolType = text("consumer")
		r.Protocol = text("range")
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = "ghost"
		a.MemberAssignment = []byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255}
		r.GroupAssignment = append(r.GroupAssignment, a)
		return r
	case 15:
		r := kmsg.NewPtrDescribeGroupsRequest()
		r.Groups = []string{group, group + "-none"}
		r.IncludeAuthorizedOperations = true
		return r
	case 16:
		r := kmsg.NewPtrListGroupsRequest()
		if v >= 4 {
			r.StatesFilter = []string{"Empty", "Stable"}
		}
		if v >= 5 {
			r.TypesFilter = []string{"classic"}
		}
		return r
	case 18:
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClientSoftwareName = "franz-lab"
		r.ClientSoftwareVersion = "1.0"
		return r
	case 19:
		r := kmsg.NewPtrCreateTopicsRequest()
		r.TimeoutMillis = 3000
		x := kmsg.NewCreateTopicsRequestTopic()
		x.Topic = name
		x.NumPartitions = 2
		x.ReplicationFactor = 1
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name = "retention.ms"
		c.Value = text("77777")
		x.Configs = append(x.Configs, c)
		r.Topics = append(r.Topics, x)
		return r
	case 20:
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis = 3000
		n := fmt.Sprintf("sweep-19-%d", v+1)
		r.TopicNames = []string{n, n + "x"}
		if v >= 6 {
			x := kmsg.NewDeleteTopicsRequestTopic()
			x.Topic = &n
			r.Topics = append(r.Topics, x)
			y := kmsg.NewDeleteTopicsRequestTopic()
			y.TopicID = [16]byte{1, 2, 3}
			r.Topics = append(r.Topics, y)
		}
		return r
	case 21:
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.TimeoutMillis = 2000
		x := kmsg.NewDeleteRecordsRequestTopic()
		x.Topic = sweepTopic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition = 0
		p.Offset = int64(v)
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 22:
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionTimeoutMillis = 10000
		if v%2 == 1 {
			r.TransactionalID = text(name)
		}
		r.ProducerID = -1
		r.ProducerEpoch = -1
		return r
	case 23:
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.ReplicaID = -1
		x := kmsg.NewOffsetForLeaderEpochRequestTopic()
		x.Topic = sweepTopic
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition = 1
		p.CurrentLeaderEpoch = -1
		p.LeaderEpoch = 0
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 24:
		if v > 3 {
			return nil // of brokers only
		}
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.TransactionalID = name
		r.ProducerID = 12345
		r.ProducerEpoch = 1
		x := kmsg.NewAddPartitionsToTxnRequestTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0, 1}
		r.Topics = append(r.Topics, x)
		return r
	case 25:
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID = name
		r.ProducerID = 12345
		r.ProducerEpoch = 1
		r.Group = group
		return r
	case 26:
		r := kmsg.NewPtrEndTxnRequest()
		r.TransactionalID = name
		r.ProducerID = 12345
		r.ProducerEpoch = 1
		r.Commit = true
		return r
	case 28:
		r := kmsg.NewPtrTxnOffsetCommitRequest()
		r.TransactionalID = name
		r.Group = group
		r.ProducerID = 12345
		r.ProducerEpoch = 1
		r.Generation = -1
		x := kmsg.NewTxnOffsetCommitRequestTopic()
		x.Topic = sweepTopic
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition = 0
		p.Offset = 1
		p.Metadata = text("tm")
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 29:
		r := kmsg.NewPtrDescribeACLsRequest()
		r.ResourceType = 1
		r.ResourcePatternType = 1
		r.Operation = 1
		r.PermissionType = 1
		return r
	case 30:
		r := kmsg.NewPtrCreateACLsRequest()
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType = 2
		c.ResourceName = name + "-acl"
		c.ResourcePatternType = 3
		c.Principal = "User:x"
		c.Host = "*"
		c.Operation = 3
		c.PermissionType = 3
		r.Creations = append(r.Creations, c)
		return r
	case 31:
		r := kmsg.NewPtrDeleteACLsRequest()
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType = 2
		f.ResourceName = text(fmt.Sprintf("sweep-30-%d-acl", v))
		f.ResourcePatternType = 3
		f.Operation = 1
		f.PermissionType = 1
		r.Filters = append(r.Filters, f)
		return r
	case 32:
		r := kmsg.NewPtrDescribeConfigsRequest()
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType = 2
		x.ResourceName = sweepTopic
		x.ConfigNames = []string{"retention.ms", "cleanup.policy", "segment.bytes"}
		r.Resources = append(r.Resources, x)
		r.IncludeSynonyms = true
		r.IncludeDocumentation = true
		return r
	case 33:
		r := kmsg.NewPtrAlterConfigsRequest()
		x := kmsg.NewAlterConfigsRequestResource()
		x.ResourceType = 2
		x.ResourceName = sweepTopic
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		c.Name = "retention.ms"
		c.Value = text("888888")
		x.Configs = append(x.Configs, c)
		r.Resources = append(r.Resources, x)
		return r
	case 34:
		r := kmsg.NewPtrAlterReplicaLogDirsRequest()
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = "/var/lib/kafka/none"
		x := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0}
		d.Topics = append(d.Topics, x)
		r.Dirs = append(r.Dirs, d)
		return r
	case 35:
		r := kmsg.NewPtrDescribeLogDirsRequest()
		x := kmsg.NewDescribeLogDirsRequestTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0, 1}
		r.Topics = append(r.Topics, x)
		return r
	case 37:
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis = 2000
		x := kmsg.NewCreatePartitionsRequestTopic()
		x.Topic = sweepTopic
		x.Count = 4 + int32(v)
		r.Topics = append(r.Topics, x)
		return r
	case 38:
		r := kmsg.NewPtrCreateDelegationTokenRequest()
		r.MaxLifetimeMillis = 1000
		return r
	case 41:
		return kmsg.NewPtrDescribeDelegationTokenRequest()
	case 42:
		r := kmsg.NewPtrDeleteGroupsRequest()
		r.Groups = []string{group + "-none", group + "j" + strconv.Itoa(int(v))}
		return r
	case 43:
		r := kmsg.NewPtrElectLeadersRequest()
		r.TimeoutMillis = 2000
		x := kmsg.NewElectLeadersRequestTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0}
		r.Topics = append(r.Topics, x)
		return r
	case 44:
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType = 2
		x.ResourceName = sweepTopic
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name = "flush.ms"
		c.Op = 0
		c.Value = text("5000")
		x.Configs = append(x.Configs, c)
		r.Resources = append(r.Resources, x)
		return r
	case 45:
		r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		r.TimeoutMillis = 2000
		x := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		x.Topic = sweepTopic
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition = 0
		p.Replicas = []int32{42}
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 46:
		r := kmsg.NewPtrListPartitionReassignmentsRequest()
		r.TimeoutMillis = 2000
		return r
	case 47:
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		x := kmsg.NewOffsetDeleteRequestTopic()
		x.Topic = sweepTopic
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = 1
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 48:
		r := kmsg.NewPtrDescribeClientQuotasRequest()
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType = "user"
		c.MatchType = 2
		r.Components = append(r.Components, c)
		return r
	case 49:
		r := kmsg.NewPtrAlterClientQuotasRequest()
		e := kmsg.NewAlterClientQuotasRequestEntry()
		n := kmsg.NewAlterClientQuotasRequestEntryEntity()
		n.Type = "client-id"
		n.Name = text(name)
		e.Entity = append(e.Entity, n)
		o := kmsg.NewAlterClientQuotasRequestEntryOp()
		o.Key = "consumer_byte_rate"
		o.Value = 1234.5
		e.Ops = append(e.Ops, o)
		r.Entries = append(r.Entries, e)
		return r
	case 50:
		return kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	case 55:
		r := kmsg.NewPtrDescribeQuorumRequest()
		x := kmsg.NewDescribeQuorumRequestTopic()
		x.Topic = "__cluster_metadata"
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		x.Partitions = append(x.Partitions, p)
		r.Topics = append(r.Topics, x)
		return r
	case 60:
		r := kmsg.NewPtrDescribeClusterRequest()
		r.IncludeClusterAuthorizedOperations = true
		r.EndpointType = 1
		return r
	case 61:
		r := kmsg.NewPtrDescribeProducersRequest()
		x := kmsg.NewDescribeProducersRequestTopic()
		x.Topic = sweepTopic
		x.Partitions = []int32{0, 1, 77}
		r.Topics = append(r.Topics, x)
		return r
	case 65:
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = []string{name, "sweep-22-1"}
		return r
	case 66:
		r := kmsg.NewPtrListTransactionsRequest()
		if v >= 1 {
			r.DurationFilterMillis = 0
		}
		return r
	case 68:
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Group = group + "c" + strconv.Itoa(int(v))
		if v >= 1 {
			r.MemberID = "AAAAAAAAAAAAAAAAAAAAAQ"
		}
		r.MemberEpoch = 0
		r.RebalanceTimeoutMillis = 5000
		r.SubscribedTopicNames = []string{sweepTopic}
		r.ServerAssignor = text("uniform")
		return r
	case 69:
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Groups = []string{group + "c0", group + "c1", group}
		r.IncludeAuthorizedOperations = true
		return r
	case 71:
		return kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	case 74:
		return kmsg.NewPtrListConfigResourcesRequest()
	case 75:
		r := kmsg.NewPtrDescribeTopicPartitionsRequest()
		x := kmsg.NewDescribeTopicPartitionsRequestTopic()
		x.Topic = sweepTopic
		r.Topics = append(r.Topics, x)
		r.ResponsePartitionLimit = 2
		return r
	case 77:
		r := kmsg.NewPtrShareGroupDescribeRequest()
		r.GroupIDs = []string{group}
		return r
	}
	return nil
}
