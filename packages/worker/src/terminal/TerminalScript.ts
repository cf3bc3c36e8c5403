/**
 * The program in the box that makes a pseudo-terminal: `script` of util-linux, which needs no terminal around it. Its input is lines of
 * ASCII, because the shell that reads them cannot read all bytes, and because sizes come the same way as keys. Its output is one line with
 * the name of the terminal's device, then the bytes of the terminal.
 */
import type { TerminalSize } from "@slipway/domain/sandbox/ports/Terminals"

/** The beginning of the first line of output. */
const GREETING = "slipway-terminal "
/** The device that says that there is no usable `script`. */
const NONE = "none"

/**
 * `$1`: the command within the terminal. The reader of the lines ends with the terminal: it says its number first. A device is opened
 * only for `stty`, in the box, so a hostile name could do no more than the box itself.
 */
const OUTER = `
case $(script --version 2>/dev/null) in *util-linux*) ;; *) echo "${GREETING}${NONE}"; exit 127 ;; esac
exec 3<&0
{ sh -c 'echo $PPID'
  while IFS= read -r line <&3; do
    rest=\${line#?}
    case $line in
      i*) printf %b "$rest" ;;
      r*) set -- $rest; stty cols "$2" rows "$3" < "$1" ;;
    esac
  done
} 2>/dev/null | {
  read -r reader
  SHELL=/bin/sh script -qefc "$1" /dev/null 3<&-
  code=$?
  kill "$reader"
  exit $code
} 2>/dev/null
`

/** Not a login shell, whose profile would replace the PATH with the programs of the sandbox. */
const inner = ({ columns, rows }: TerminalSize) => `
stty sane iutf8 cols ${columns} rows ${rows}
echo "${GREETING}$(tty)"
TERM=xterm-256color
SHELL=$(command -v bash || echo /bin/sh)
export TERM SHELL
exec "$SHELL"
`

/** The arguments of `/bin/sh` for a terminal of this size. */
export const argumentsOf = (size: TerminalSize): ReadonlyArray<string> => ["-c", OUTER, "slipway-terminal", inner(size)]

/** The first line of output; `null`: the terminal did not begin with one. `device`: `null` if the box has no usable `script`. */
export const readGreeting = (line: string): { readonly device: string | null } | null => {
  const [, device] = /^slipway-terminal (none|\/dev\/[\w/]{1,60})\r?$/u.exec(line) ?? []
  return device === undefined ? null : { device: device === NONE ? null : device }
}

/** A line of input is read byte by byte, so a long one would only delay the next. */
const LINE_BYTES = 4096

const encodeByte = (byte: number): string =>
  byte >= 0x20 && byte < 0x7f && byte !== 0x5c ? String.fromCharCode(byte) : `\\0${byte.toString(8).padStart(3, "0")}`

/** The lines for the bytes of keys. */
export const keys = (bytes: Uint8Array): string => {
  let text = ""
  for (let start = 0; start < bytes.length; start += LINE_BYTES) {
    text += `i${Array.from(bytes.subarray(start, start + LINE_BYTES), encodeByte).join("")}\n`
  }
  return text
}

/** The line for a new size. The programs in the terminal get SIGWINCH. */
export const resize = (device: string, { columns, rows }: TerminalSize): string => `r ${device} ${columns} ${rows}\n`
