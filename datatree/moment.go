package datatree

// moment is a time in 48 bits, the highest 16 first: 4459 years to either side of 1970 in milliseconds. What lies beyond is the end of that.
type moment [3]uint16

const maxMillis = 1<<47 - 1

func momentOf(millis int64) moment {
	millis = max(-maxMillis-1, min(millis, maxMillis))
	return moment{uint16(millis >> 32), uint16(millis >> 16), uint16(millis)}
}

// millis is the time in milliseconds since 1970.
func (m moment) millis() int64 { return int64(int16(m[0]))<<32 | int64(m[1])<<16 | int64(m[2]) }
