/**
 * Git over what an agent wrote. It runs in the sandbox's box: as its user, under its limits, and with nothing in sight that
 * the agent could not read itself, so neither a link that is swapped under it nor files that take it long harm anybody
 * else. It sees the host's repository of the tree, read-only, and nothing in the agent's `.git` tells it what to do.
 */
import type { SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { Effect, Option, Stream } from "effect"
import { join } from "node:path"
import { CONFIG, ENVIRONMENT, GitFailed } from "./Git.ts"
import type { HostRepository } from "./HostRepository.ts"

/**
 * Arguments: what to do, seconds of a processor, a folder for files that no other process may see (empty: TMPDIR), the
 * tree, the commit it started from, and what of a snapshot need not be packed. Unless it is told what to look at, it begins
 * with the names of new files, their length before them; what to do with them is told by its input.
 */
const SCRIPT = `
what=$1; ulimit -t "$2"; place=$(mktemp -d "\${3:-$TMPDIR}/git-XXXXXXXX") || exit 1; tree=$4; base=$5
shift 5
objects=$TMPDIR/.git-objects-\${GIT_DIR##*/}
trap 'rm -rf "$place"; [ "$what" != snapshot ] || rm -rf "$objects"' EXIT
export HOME=/nonexistent GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$place/index"
set -e
cd "$tree"

if [ "$what" = ignored ]; then
  # An index of these alone, since only of what is in an index git says that it should not be.
  git update-index --replace -z --index-info
  git ls-files --cached --ignored --exclude-standard -z
  exit
fi

cp -p "$GIT_DIR/index" "$GIT_INDEX_FILE"
git ls-files --others --exclude-standard -z > "$place/others"
wc -c < "$place/others"
cat "$place/others"
cat > "$place/chosen"

if [ "$what" = changes ]; then
  if [ -s "$place/chosen" ]; then
    git update-index -z --index-info < "$place/chosen"
    # Git looks into a file whose times show no change only if the file is not older than the index.
    touch -r "$GIT_DIR/index" "$GIT_INDEX_FILE"
  fi
  git diff "$@" "$base" --
  exit
fi

rm -rf "$objects"
mkdir -m 0700 "$objects"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$GIT_DIR/objects" GIT_OBJECT_DIRECTORY="$objects"
# Else what only its times say to be changed would be written again.
git update-index -q --refresh > "$place/refreshed" || :
# Files that cannot be read stay as they were: then it ends with 1.
git add --update --ignore-errors || [ $? -eq 1 ]
if [ -s "$place/chosen" ] && ! git update-index --add --remove --replace -z --stdin < "$place/chosen"; then
  xargs -0 sh -c '
    for file; do if [ -L "$file" ] || { [ -f "$file" ] && [ -r "$file" ]; }; then printf "%s\\0" "$file"; fi; done
  ' sh < "$place/chosen" > "$place/readable"
  git update-index --add --remove --replace -z --stdin < "$place/readable"
fi
made=$(git write-tree)
echo "$made"
{ echo "$made"; printf '^%s^{tree}\\n' "$base" "$@"; } | git pack-objects --revs --stdout --quiet --window=0
`

/** Beside what every git of ours goes by. What is written there is thrown away, or read anew by the host. */
const BOX_CONFIG = [
  ...CONFIG,
  "core.fsync=none",
  "core.compression=1",
  "core.bigFileThreshold=16m",
  // Owners have other numbers inside. Times and sizes say what was changed; the time of the last change nobody can set.
  "core.checkStat=minimal"
]

const BOX_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...ENVIRONMENT,
  GIT_PAGER: "cat",
  GIT_LITERAL_PATHSPECS: "1",
  GIT_CONFIG_COUNT: `${BOX_CONFIG.length}`,
  ...Object.fromEntries(BOX_CONFIG.flatMap((entry, i) => {
    const [name = "", ...value] = entry.split("=")
    return [[`GIT_CONFIG_KEY_${i}`, name], [`GIT_CONFIG_VALUE_${i}`, value.join("=")]]
  }))
}

/** Bytes of names and differences: more than is ever shown. The agent cannot have the host read without end. */
const MAXIMUM_BYTES = 16_777_216
/** Digits of a length, and its end. */
const MAXIMUM_LENGTH = 20

const LINE_FEED = 0x0a

/** Seconds, of a processor and of the clock. */
const PATIENCE = { changes: 10, ignored: 20, snapshot: 120 }

const failed = (what: string, reason: GitFailed["reason"], stderr: string, code: number | null = null) =>
  new GitFailed({ command: `in the box (${what})`, reason, code, stderr })

/** Where names come first, as many bytes as the line before them says: gives them out, and then the rest. */
const afterNames = <E1, E2>(names: (names: Buffer) => Effect.Effect<void, E1>, rest: (bytes: Uint8Array) => Effect.Effect<void, E2>) => {
  const begun: Array<Uint8Array> = []
  let [size, end] = [0, -1]
  let told = false
  return Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (told) return yield* rest(bytes)
    begun.push(bytes)
    size += bytes.length
    if (end < 0) {
      const line = Buffer.concat(begun)
      const feed = line.indexOf(LINE_FEED)
      if (feed < 0 && size <= MAXIMUM_LENGTH) return
      const length = Number(line.subarray(0, Math.max(feed, 0)).toString())
      if (feed < 0 || !Number.isSafeInteger(length) || length < 0 || length > MAXIMUM_BYTES) return yield* failed("names", "output", "")
      end = feed + 1 + length
    }
    if (size < end) return
    told = true
    const all = Buffer.concat(begun)
    yield* names(all.subarray(all.indexOf(LINE_FEED) + 1, end))
    if (size > end) yield* rest(all.subarray(end))
  })
}

export type BoxGit = ReturnType<typeof make>

export const make = (host: SandboxHost["Service"], sandboxId: SandboxId) => {
  // Boxes have a `/tmp` for each process tree; without isolation nothing is hidden anyway.
  const hidden = host.isolation === "none" ? "" : "/tmp"

  /** `listen` gets what it says, and `answer`, which ends the input. Fails when that fails, git does, or it takes too long. */
  const talk = Effect.fnUntraced(function*<E>(
    repository: HostRepository,
    what: keyof typeof PATIENCE,
    packed: ReadonlyArray<string>,
    listen: (bytes: Uint8Array, answer: (input: Buffer) => Effect.Effect<void>) => Effect.Effect<void, E>,
    input?: Buffer
  ) {
    const box = yield* host.find(sandboxId)
    if (Option.isNone(box)) return yield* failed(what, "exit", "the sandbox has no box")
    const { workspace } = box.value
    yield* Effect.gen(function*() {
      const process = yield* Effect.mapError(
        box.value.spawn({
          command: "sh",
          args: ["-c", SCRIPT, "slipway-git", what, `${PATIENCE[what]}`, hidden, join(workspace, repository.folder), repository.baseSha,
            ...packed],
          env: { ...BOX_ENVIRONMENT, GIT_DIR: repository.gitDir },
          readOnly: [repository.gitDir],
          isOffline: true
        }),
        ({ detail }) => failed(what, "exit", detail)
      )
      const answer = (bytes: Buffer) => Effect.andThen(process.write(bytes), process.endInput)
      if (input !== undefined) yield* answer(input)
      yield* Stream.runForEach(process.stdout, (bytes) => listen(bytes, answer))
      const { code } = yield* process.exited
      if (code !== 0) return yield* failed(what, "exit", (yield* process.stderrTail).slice(-4_000), code)
    }).pipe(
      Effect.scoped,
      Effect.timeoutOrElse({ duration: PATIENCE[what] * 1_000, orElse: () => Effect.fail(failed(what, "timeout", "")) })
    )
  })

  /** Puts what comes together, up to the limit. */
  const collecting = (what: string) => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    return {
      add: (bytes: Uint8Array) =>
        Effect.suspend(() => {
          size += bytes.length
          if (size > MAXIMUM_BYTES) return Effect.fail(failed(what, "output", ""))
          chunks.push(bytes)
          return Effect.void
        }),
      all: () => Buffer.concat(chunks)
    }
  }

  /**
   * What `git diff` with these options says of the tree, after `enter` was asked which of the new files are to be in the
   * index, as lines of `update-index --index-info`. `names` end with NUL, those of repositories with `/` and NUL.
   */
  const changes = Effect.fnUntraced(function*(
    repository: HostRepository,
    options: ReadonlyArray<string>,
    enter: (names: Buffer) => Effect.Effect<Buffer>
  ) {
    const said = collecting("changes")
    let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
    const listen = afterNames((names) => Effect.flatMap(enter(names), (lines) => reply(lines)), said.add)
    yield* talk(repository, "changes", options, (bytes, answer) => {
      reply = answer
      return listen(bytes)
    })
    return said.all()
  })

  /** Which of these lines of `update-index --index-info` name files that the tree's own rules ignore. */
  const ignored = Effect.fnUntraced(function*(repository: HostRepository, entries: Buffer) {
    const said = collecting("ignored")
    yield* talk(repository, "ignored", [], said.add, entries)
    return said.all()
  })

  /**
   * The tree as it is, in `take`: its id and a line feed, then a pack of what is neither in the commit it started from nor
   * in `known`. Of new files only those that `choose` names, each ended by NUL.
   */
  const snapshot = Effect.fnUntraced(function*<E>(
    repository: HostRepository,
    known: ReadonlyArray<string>,
    choose: (names: Buffer) => Effect.Effect<Buffer>,
    take: (bytes: Uint8Array) => Effect.Effect<void, E>
  ) {
    let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
    const listen = afterNames((names) => Effect.flatMap(choose(names), (chosen) => reply(chosen)), take)
    yield* talk(repository, "snapshot", known, (bytes, answer) => {
      reply = answer
      return listen(bytes)
    })
  })

  return { changes, ignored, snapshot }
}
