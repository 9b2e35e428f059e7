package proto

import "strings"

// ValidatePath checks the path of a setData, setACL or check, and the final path of a create, sequence number included.
// It returns ErrBadArguments unless p is "/", or begins with "/", does not end in "/", has no component that is empty,
// "." or "..", and holds only allowed characters. Forbidden are U+0000–U+001F, U+007F–U+009F, U+D800–U+F8FF,
// U+FFF0–U+FFFF and everything beyond U+FFFF.
func ValidatePath(p string) error {
	if p == "/" {
		return nil
	}
	if p == "" || p[0] != '/' {
		return ErrBadArguments
	}
	start := 1 // of the component
	for i, c := range p[1:] {
		i++
		if c == '/' {
			if !validComponent(p[start:i]) {
				return ErrBadArguments
			}
			start = i + 1
		} else if !allowedRune(c) { // a malformed sequence arrives as U+FFFD
			return ErrBadArguments
		}
	}
	if !validComponent(p[start:]) {
		return ErrBadArguments
	}
	return nil
}

func validComponent(name string) bool { return name != "" && name != "." && name != ".." }

func allowedRune(c rune) bool {
	switch {
	case c < 0x20, c >= 0x7F && c <= 0x9F, c >= 0xD800 && c <= 0xF8FF, c >= 0xFFF0:
		return false
	}
	return true
}

// ValidateForCreate checks the path that a create asks for, before the lookup of the parent: it returns ErrBadArguments
// unless p has a "/" and no NUL. ValidatePath judges the final path later.
func ValidateForCreate(p string) error {
	if strings.IndexByte(p, '/') < 0 || strings.IndexByte(p, 0) >= 0 {
		return ErrBadArguments
	}
	return nil
}

// ValidateForDelete checks the path of a delete before any lookup: it returns ErrBadArguments unless p has a "/" and no
// NUL and is not reserved.
func ValidateForDelete(p string) error {
	if IsReserved(p) {
		return ErrBadArguments
	}
	return ValidateForCreate(p)
}

// IsReserved reports whether p is one of the nodes that every tree has and nobody can delete.
func IsReserved(p string) bool {
	switch p {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}

// Split cuts p at its last "/". The parent of a top-level node is "/"; so is that of a p without "/", whose name is all
// of p. Split("/") is "/", "". The path need not be valid: the parent of "/a//b" is "/a/", which no node has.
func Split(p string) (parent, name string) {
	i := strings.LastIndexByte(p, '/')
	if i <= 0 {
		return "/", p[i+1:]
	}
	return p[:i], p[i+1:]
}

// Parent returns the first half of Split; the parent of "/" is "/" itself.
func Parent(p string) string {
	parent, _ := Split(p)
	return parent
}
