package daemon

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"durafs/fusefs"
	"durafs/store"
)

// metrics are one daemon's, in a registry of their own. What other packages
// count is read when it is asked for.
type metrics struct {
	registry *prometheus.Registry
	seconds  prometheus.Histogram
	batches  prometheus.Histogram
	bytes    prometheus.Counter
}

func newMetrics(d *Daemon) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "durafs_barrier_seconds", Help: "Time that a group commit's write and sync took.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16), // 50 µs to 1.6 s
		}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "durafs_barrier_batches", Help: "Batches that one group commit made durable.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "durafs_log_bytes_total", Help: "Bytes written to the log.",
		}),
	}
	m.registry.MustRegister(m.seconds, m.batches, m.bytes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.serverMetrics(d)
	m.mountMetrics(d)
	m.storeMetrics(d)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// barrier is called by the log's writer after each group commit.
func (m *metrics) barrier(b store.Barrier) {
	m.seconds.Observe(b.Took.Seconds())
	m.batches.Observe(float64(b.Batches))
	m.bytes.Add(float64(b.Bytes))
}

func (m *metrics) serverMetrics(d *Daemon) {
	m.counter("durafs_requests_total", "Requests answered.", func() float64 { return float64(d.now().server.Stats().Requests) })
	m.counter("durafs_requests_refused_total", "Requests answered with 4xx.", func() float64 { return float64(d.now().server.Stats().Refused) })
	m.counter("durafs_requests_failed_total", "Requests answered with 5xx.", func() float64 { return float64(d.now().server.Stats().Failed) })
	m.counter("durafs_request_panics_total", "Handlers that panicked.", func() float64 { return float64(d.now().server.Stats().Panics) })
	m.counter("durafs_connections_cut_total", "Clients cut off for being too slow.", func() float64 { return float64(d.now().server.Stats().Cut) })
	m.counter("durafs_rows_total", "Rows acknowledged.", func() float64 { return float64(d.now().server.Stats().Rows) })
	m.gauge("durafs_requests_open", "Requests being answered.", func() float64 { return float64(d.now().server.Stats().OpenRequests) })
	m.gauge("durafs_connections_open", "Open connections.", func() float64 { return float64(d.now().server.Stats().OpenConnections) })
}

func (m *metrics) mountMetrics(d *Daemon) {
	if d.config.Mount == "" {
		return
	}
	m.counter("durafs_mount_requests_total", "Requests of the kernel that were handled.", func() float64 { return float64(d.now().mountStats().Requests) })
	m.counter("durafs_mount_failures_total", "Requests of the kernel answered with EIO.", func() float64 { return float64(d.now().mountStats().Failures) })
	m.counter("durafs_mount_panics_total", "Handlers of the mount that panicked.", func() float64 { return float64(d.now().mountStats().Panics) })
	m.counter("durafs_mount_notifications_total", "Changes that the kernel was told of.", func() float64 { return float64(d.now().mountStats().Notifications) })
	m.counter("durafs_mount_overflows_total", "Changes that were too many to tell the kernel of.", func() float64 { return float64(d.now().mountStats().Overflows) })
	m.gauge("durafs_mount_handles_open", "Open files of the mount that hold something.", func() float64 { return float64(d.now().mountStats().Handles) })
}

// mountStats are those of the mount; of none where there is none any more.
func (l *life) mountStats() fusefs.Stats {
	if l.mount == nil {
		return fusefs.Stats{}
	}
	return l.mount.Stats()
}

func (m *metrics) storeMetrics(d *Daemon) {
	m.gauge("durafs_healthy", "1 while the store takes writes.", func() float64 {
		if d.now().store.Healthy() == nil {
			return 1
		}
		return 0
	})
	m.gauge("durafs_queue_batches", "Batches that wait for the log's next group commit.", func() float64 { return float64(d.now().store.Log().Stats().QueueBatches) })
	m.gauge("durafs_queue_bytes", "Bytes that wait for the log's next group commit.", func() float64 { return float64(d.now().store.Log().Stats().QueueBytes) })
	m.registry.MustRegister(&statusCollector{d: d})
}

func (m *metrics) counter(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
}

func (m *metrics) gauge(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// statusCollector reads the store's status once per scrape.
type statusCollector struct{ d *Daemon }

var (
	descRuns     = prometheus.NewDesc("durafs_runs", "Runs by phase.", []string{"phase"}, nil)
	descLSN      = prometheus.NewDesc("durafs_durable_lsn", "Highest LSN that is durable.", nil, nil)
	descSegments = prometheus.NewDesc("durafs_log_segments", "Segments of the log.", nil, nil)
	descLog      = prometheus.NewDesc("durafs_log_size_bytes", "Size of the log on disk.", nil, nil)
	descPacks    = prometheus.NewDesc("durafs_payload_packs", "Packs of the chunk store.", nil, nil)
	descChunks   = prometheus.NewDesc("durafs_payload_size_bytes", "Size of the chunk store on disk.", nil, nil)
	descOutbox   = prometheus.NewDesc("durafs_deliveries", "Ends of runs that sinks have not taken, by state.", []string{"state"}, nil)
	descFree     = prometheus.NewDesc("durafs_free_bytes", "Free bytes of the store's file system.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRuns, descLSN, descSegments, descLog, descPacks, descChunks, descOutbox, descFree} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.d.now().store.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for phase, n := range s.Runs {
		gauge(descRuns, float64(n), phase)
	}
	gauge(descLSN, float64(s.Log.DurableLSN))
	gauge(descSegments, float64(s.Log.Segments))
	gauge(descLog, float64(s.Log.Bytes))
	gauge(descPacks, float64(s.Chunks.Packs))
	gauge(descChunks, float64(s.Chunks.Bytes))
	gauge(descOutbox, float64(s.Outbox.Waiting), "waiting")
	gauge(descOutbox, float64(s.Outbox.Parked), "parked")
	gauge(descFree, float64(s.Space.FreeBytes))
}
