package peer

// What the external tests need: they use internal/sim, which uses this package.
type (
	HardRecord = hardRecord
	HardFile   = hardFile
	Manifest   = manifest
)

const HardStride = hardStride

var (
	CreateHard    = createHard
	OpenHard      = openHard
	ReadManifest  = readManifest
	WriteManifest = writeManifest
)

func (h *hardFile) Save(rec HardRecord) error { return h.save(rec) }

func (h *hardFile) Record() HardRecord { return h.rec }

func (h *hardFile) Slot() int { return h.slot }
