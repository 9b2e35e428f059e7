package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/bench/load"
	"github.com/zkd-project/zkd/proto"
)

// completionPatience bounds how long a completion may ask a server.
const completionPatience = 2 * time.Second

// complete returns what the last of words may become, sorted: names of commands, options, or paths that list knows.
func complete(words []string, list func(dir string) []string) []string {
	last := words[len(words)-1]
	if len(words) == 1 {
		var names []string
		for _, c := range commands() {
			names = append(names, c.name)
		}
		return startingWith(names, last)
	}
	c := findCommand(words[0])
	switch {
	case c == nil:
		return nil
	case strings.HasPrefix(last, "-"):
		return startingWith(c.spellings(), last)
	case c.name == "help":
		return complete(words[1:], list)
	case c.name == "completion":
		return startingWith([]string{"bash", "zsh", "fish"}, last)
	case c.name == "bench":
		return startingWith(load.Workloads, last)
	case c.name == "printwatches":
		return startingWith([]string{"on", "off"}, last)
	}
	if o := c.optionBefore(words); o != nil {
		if o.arg == "mode" {
			return startingWith([]string{"PERSISTENT", "PERSISTENT_RECURSIVE"}, last)
		}
		return nil
	}
	if c.argumentAt(words) >= c.paths || !strings.HasPrefix(last, "/") {
		if last == "" && c.argumentAt(words) < c.paths {
			return []string{"/"}
		}
		return nil
	}
	dir, _ := proto.Split(last)
	var paths []string
	for _, name := range list(dir) {
		paths = append(paths, join(dir, name))
	}
	return startingWith(paths, last)
}

// spellings are the options as they are typed, the short form if there is one.
func (c *command) spellings() []string {
	var out []string
	for _, o := range c.options {
		if o.letter != "" {
			out = append(out, "-"+o.letter)
		}
		if o.long != "" {
			out = append(out, "--"+o.long)
		}
	}
	return out
}

// optionBefore returns the option whose argument the last word is, nil if it is none's.
func (c *command) optionBefore(words []string) *option {
	name := strings.TrimLeft(words[len(words)-2], "-")
	if name == words[len(words)-2] {
		return nil
	}
	for _, o := range c.options {
		if o.arg != "" && (name == o.letter || name == o.long) {
			return &o
		}
	}
	return nil
}

// argumentAt counts the arguments before the last word.
func (c *command) argumentAt(words []string) int {
	n := 0
	for i := 1; i < len(words)-1; i++ {
		if !strings.HasPrefix(words[i], "-") && (i == 1 || c.optionBefore(words[:i+1]) == nil) {
			n++
		}
	}
	return n
}

func startingWith(all []string, prefix string) []string {
	var out []string
	for _, s := range all {
		if strings.HasPrefix(s, prefix) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// commonPrefix of a list that is not empty.
func commonPrefix(all []string) string {
	p := all[0]
	for _, s := range all[1:] {
		for !strings.HasPrefix(s, p) {
			p = p[:len(p)-1]
		}
	}
	return p
}

// listForCompletion returns the children of dir, none if no server tells in time.
func (sh *shell) listForCompletion(dir string) []string {
	if sh.c == nil || sh.c.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(sh.ctx, completionPatience)
	defer cancel()
	names, _, err := sh.c.Children(ctx, dir)
	if err != nil {
		return nil
	}
	return names
}

// completeLine is what Tab does: it returns the line and the cursor after it, and what to show if there are several ways on.
func (sh *shell) completeLine(line string, pos int) (newLine string, newPos int, choices []string) {
	head, tail := line[:pos], line[pos:]
	words := strings.Fields(head)
	if head == "" || strings.HasSuffix(head, " ") {
		words = append(words, "")
	}
	last := words[len(words)-1]
	found := complete(words, sh.listForCompletion)
	if len(found) == 0 {
		return line, pos, nil
	}
	grown := commonPrefix(found)
	switch {
	case len(found) == 1 && grown == last && strings.HasPrefix(last, "/") && last != "/":
		// It is complete. If there is more below, go down; otherwise on to the next word.
		if len(sh.listForCompletion(last)) > 0 {
			grown += "/"
		} else {
			grown += " "
		}
	case len(found) == 1 && !strings.HasPrefix(grown, "/"):
		grown += " "
	case len(found) > 1 && grown == last:
		choices = found
	}
	head = head[:len(head)-len(last)] + grown
	return head + tail, len(head), choices
}

// completeWords is the hidden command behind the scripts of completion: it prints what the last word may become.
func completeWords(_ context.Context, sh *shell, words []string) string {
	if len(words) == 0 {
		words = []string{""}
	}
	return strings.Join(append(complete(words, sh.listForCompletion), ""), "\n")
}

var scripts = map[string]string{
	"bash": `# bash completion for zkcli; put it where bash looks for completions, or: source <(zkcli completion bash)
_zkcli() {
	# Not COMP_WORDS: the colon of host:port would be a word of its own.
	local line=${COMP_LINE:0:COMP_POINT} words cur last i=1 options=()
	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	last=$((${#words[@]} - 1))
	cur=${words[last]}
	while ((i < last)); do
		case ${words[i]} in
		@VALUED|@) options+=("${words[i]}" "${words[i + 1]}"); ((i += 2)) ;;
		-*) options+=("${words[i]}"); ((i += 1)) ;;
		*) break ;;
		esac
	done
	((i <= last)) || return
	if ((i == last)) && [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "@ALL@" -- "$cur")
		return
	fi
	mapfile -t COMPREPLY < <(zkcli "${options[@]}" --complete -- "${words[@]:i}" 2>/dev/null)
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == /* ]] && compopt -o nospace
	[[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}") # bash replaces what is behind the colon
}
complete -o default -F _zkcli zkcli
`,
	"zsh": `#compdef zkcli
# zsh completion for zkcli; put it as _zkcli into a folder of $fpath
_zkcli() {
	local i=2
	local -a options found
	while ((i < CURRENT)); do
		case ${words[i]} in
		@VALUED|@) options+=("${words[i]}" "${words[i + 1]}"); ((i += 2)) ;;
		-*) options+=("${words[i]}"); ((i += 1)) ;;
		*) break ;;
		esac
	done
	if ((i >= CURRENT)) && [[ ${words[CURRENT]} == -* ]]; then
		compadd -- @ALL@
		return
	fi
	found=("${(@f)$(zkcli "${options[@]}" --complete -- "${(@)words[i,CURRENT]}" 2>/dev/null)}")
	compadd -S '' -- $found
}
compdef _zkcli zkcli
`,
	"fish": `# fish completion for zkcli; put it into ~/.config/fish/completions/zkcli.fish
function __zkcli_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l options
	set -e words[1]
	while test (count $words) -gt 1
		switch $words[1]
			case @VALUED@
				set -a options $words[1] $words[2]
				set -e words[1..2]
			case '-*'
				set -a options $words[1]
				set -e words[1]
			case '*'
				break
		end
	end
	zkcli $options --complete -- $words 2>/dev/null
end
complete -c zkcli -f -a '(__zkcli_complete)'
complete -c zkcli -n __fish_use_subcommand -l server -x -d 'servers and chroot'
complete -c zkcli -n __fish_use_subcommand -l timeout -x -d 'session timeout'
complete -c zkcli -n __fish_use_subcommand -l output -x -a 'text json' -d 'form of the output'
complete -c zkcli -n __fish_use_subcommand -l color -x -a 'auto always never' -d 'colours'
`,
}

// script is the completion script for a system shell, "" if there is none, with the program's options filled in.
func script(shell string) string {
	var all, valued []string
	newOptions(new(config)).VisitAll(func(o *pflag.Flag) {
		all = append(all, "--"+o.Name)
		if o.NoOptDefVal == "" {
			valued = append(valued, "--"+o.Name)
			if oldOptions[o.Name] {
				valued = append(valued, "-"+o.Name)
			}
		}
	})
	return strings.NewReplacer("@ALL@", strings.Join(append(all, "--help"), " "), "@VALUED|@", strings.Join(valued, " | "),
		"@VALUED@", strings.Join(valued, " ")).Replace(scripts[shell])
}

func completionScript(_ context.Context, _ *shell, a *arguments) (result, error) {
	var res result
	text := script(a.arg(0))
	if text == "" {
		return res, wrongUsage("completion", "there is no script for "+a.arg(0))
	}
	res.field("script", text)
	res.text = text
	return res, nil
}
