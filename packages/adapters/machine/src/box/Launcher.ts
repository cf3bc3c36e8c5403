/** The command that becomes the program that makes a box: it finds that program, closes descriptors and enters control groups first. */
import { constants, existsSync, readdirSync, readFileSync } from "node:fs"
import { access } from "node:fs/promises"
import { join } from "node:path"

/** Not the service's own PATH, which a checkout may have put itself into. */
export const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const find = async (tool: string): Promise<string | undefined> => {
  for (const folder of PATH.split(":")) {
    const file = join(folder, tool)
    if (await access(file, constants.X_OK).then(() => true, () => false)) return file
  }
  return undefined
}

interface MissingTool {
  readonly tool: string
  readonly package: string
}

/** The paths of the programs, or the first program that is missing. `packages`: the package of each program. */
export const findTools = async <Tool extends string>(
  packages: Readonly<Record<Tool, string>>
): Promise<Readonly<Record<Tool, string>> | MissingTool> => {
  const found: Record<string, string> = {}
  for (const [tool, name] of Object.entries<string>(packages)) {
    const file = await find(tool)
    if (file === undefined) return { tool, package: name }
    found[tool] = file
  }
  return found as Record<Tool, string>
}

const O_CLOEXEC = 0o2000000

/**
 * Descriptors that the parent of the service left open for all child processes. Node does not pass on its own descriptors, and closes the
 * lowest ones at start, but not those after a gap (as of Node 24).
 */
export const strays = (): ReadonlyArray<number> =>
  readdirSync("/proc/self/fdinfo").map(Number).filter((descriptor) => {
    if (descriptor <= 2) return false
    try {
      const flags = /^flags:\s*(\d+)/mu.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "0"
      return (parseInt(flags, 8) & O_CLOEXEC) === 0
    } catch {
      return false // closed meanwhile
    }
  })

/**
 * The shell, with options. A plain `sh` may not know how to close descriptors of two digits. Bash takes a standard input
 * that is a socket for a remote login, and would read its owner's settings.
 */
const shell = (strays: ReadonlyArray<number>): readonly [program: string, ...options: ReadonlyArray<string>] =>
  strays.some((descriptor) => descriptor > 9) && existsSync("/bin/bash") ? ["/bin/bash", "--norc", "--noprofile"] : ["/bin/sh"]

/**
 * Arguments: how many group files follow, those, the descriptors to close, how many mounts follow, where from and where to of each.
 * Mounts come with what is mounted below: what the sandbox is shown of caches. The kernel shall rather end a box than the service when
 * memory runs out, and let it wait when processors are short.
 */
const PRELUDE = `
n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done
for descriptor in $1; do eval "exec $descriptor>&-" || exit 125; done
shift
n=$1; shift
while [ "$n" -gt 0 ]; do mount -o rbind "$1" "$2" || exit 125; shift 2; n=$((n-1)); done
umask 022
echo 500 > /proc/self/oom_score_adj || :
`

/**
 * Arguments of a command line that enters its groups, closes descriptors and mounts, and then goes on as `rest`, a script. What follows
 * are the script's own arguments. `unshare` is used where there is something to mount: mounts are the box's alone.
 */
export const launched = ({ groupFiles, mounts, rest, strays, unshare }: {
  /** A process writes its id into each. */
  readonly groupFiles: ReadonlyArray<string>
  readonly mounts: ReadonlyArray<readonly [source: string, target: string]>
  readonly rest: string
  readonly strays: ReadonlyArray<number>
  readonly unshare: string
}): ReadonlyArray<string> => [
  // This runs before the process enters its control group, but it is our own program.
  ...(mounts.length === 0 ? [] : [unshare, "--mount", "--propagation", "private"] as const),
  ...shell(strays),
  ...["-c", `${PRELUDE}${rest}`, "slipway-box", `${groupFiles.length}`, ...groupFiles, strays.join(" ")],
  ...[`${mounts.length}`, ...mounts.flat()]
]
