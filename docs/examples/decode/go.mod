module example.com/pausetrace/decode

go 1.19

require (
	github.com/twmb/franz-go v1.15.4
	github.com/vmihailenco/msgpack/v5 v5.4.1
)

require (
	github.com/klauspost/compress v1.16.7 // indirect
	github.com/pierrec/lz4/v4 v4.1.19 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.7.0 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
)
