/**
 * Git over what an agent wrote. It runs in the sandbox's box: as its user, under its limits, and with nothing in sight that
 * the agent could not read itself, so neither a link that is swapped under it nor files that take it long harm anybody
 * else. It sees the host's repository of the tree, read-only, and nothing in the agent's `.git` tells it what to do.
 */
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import type { HostError, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Clock, Effect, Stream } from "effect"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { CONFIG, eachField, ENVIRONMENT, GitFailed, terminated } from "../Git.ts"
import { inPieces } from "../InPieces.ts"
import { type HostRepository, scratch } from "./HostRepository.ts"
import * as IndexStats from "./IndexStats.ts"
import type { Change, CopyLimits, Tree } from "./Tree.ts"

/** Of some 300,000 files. */
const MAXIMUM_INDEX_BYTES = 33_554_432

/**
 * Arguments: what to do, seconds of a processor, a folder for files that no other process may see (empty: TMPDIR), the
 * tree, the commit it started from, `own` where GIT_DIR is not the worker's, and options of a comparison. In one
 * that is not, objects that were made stay, so that the next look does not pack them again, and what the worker knows may be missing.
 *
 * Unless it is told what to look at, it begins with names, after which comes an empty one; what to do with them is told by its
 * input. Then come the bytes of the index and the index, if there is something to `take`: what git learned of files as it looked.
 * A snapshot begins when a line of input says what need not be packed, and is told the bytes of the names of files that are
 * in the index, those, and those of new files.
 *
 * Where nothing keeps git from what is outside the tree, `names` asks for them alone, and the tree is then a folder of ours with copies
 * of these files, `copied`. The input of a comparison, and of a snapshot after its first line, is then the bytes of what removes files
 * from the index, as lines of `update-index --index-info`, those, and the names of the copies.
 * Each process that it starts takes longer than most of what they do.
 */
const SCRIPT = `
what=$1; ulimit -t "$2"; place=\${3:-$TMPDIR}/git-$$; tree=$4; base=$5; own=$6; copied=$7; take=$8
shift 8
objects=$place/objects; [ "$what" != snapshot ] || objects=$TMPDIR/.git-objects-\${GIT_DIR##*/}
# One that was killed left them, or nobody did.
umask 077; mkdir "$place" "$objects" 2> /dev/null || { rm -rf "$place" "$objects"; mkdir "$place" "$objects" || exit 1; }
trap 'rm -rf "$place" "$objects"' EXIT
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
# Git does not look into the folder of a submodule. A folder with files and no repository that \`.gitmodules\` does not name is the agent's
# own; other folders with files are listed, because nothing else reads them. The mode of a submodule is 00 00 e0 00 in an index.
: > "$place/submodules"
if LC_ALL=C grep -qaP '\\x00\\x00\\xe0\\x00' "$GIT_INDEX_FILE"; then
  git ls-files --stage -z | sed -zn 's/^160000 [^\t]*\t//p' | xargs -0 -r sh -c '
    for path; do
      [ ! -L "$path" ] && [ -d "$path" ] && [ -n "$(find "./$path" -mindepth 1 -print -quit)" ] || continue
      if [ -e "$path/.git" ] ||
        git config --file .gitmodules --fixed-value --get-regexp --end-of-options "^submodule\\..*\\.path$" "$path" > /dev/null; then
        printf "!! %s\\0" "$path" >&3
      else printf "%s\\0" "$path"; fi
    done
  ' sh > "$place/folders" 3> "$place/submodules"
  [ ! -s "$place/folders" ] || git update-index -z --force-remove --stdin < "$place/folders"
fi
status() {
  cat "$place/submodules"
  # What it learned of files, it writes to the index.
  GIT_OPTIONAL_LOCKS=\${take:+1} git status --porcelain=v1 -z --untracked-files=all --no-renames --ignore-submodules=dirty
  printf '\\0'
}
tell() {
  size=0
  [ -z "$take" ] || size=$(($(wc -c < "$GIT_INDEX_FILE")))
  [ "$size" -le ${MAXIMUM_INDEX_BYTES} ] || size=0
  echo "$size"
  [ "$size" -eq 0 ] || cat "$GIT_INDEX_FILE"
}

if [ "$what" = names ]; then
  status
  tell
  exit
fi

if [ "$what" = changes ] && [ -z "$copied" ]; then
  git ls-files --others --exclude-standard -z
  printf '\\0'
  cat > "$place/chosen"
  [ -z "$take" ] || git update-index -q --refresh --force-write-index || [ $? -eq 1 ]
  tell
  [ ! -s "$place/chosen" ] || git update-index -z --index-info < "$place/chosen"
  git diff "$@" "$base" --
  exit
fi

enter() { git update-index --add --remove --replace -z --stdin; }
store=$objects
[ -z "$own" ] || [ ! -w "$GIT_DIR/objects" ] || store=$GIT_DIR/objects
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$GIT_DIR/objects" GIT_OBJECT_DIRECTORY="$store"
[ "$what" = changes ] || read -r known
[ -n "$copied" ] || status
read -r length
cat > "$place/chosen"
if [ -z "$copied" ]; then
  tell
else
  head -c "$length" "$place/chosen" | git update-index -z --index-info
  tail -c "+$((length + 1))" "$place/chosen" | enter
fi
if [ "$what" = changes ]; then
  git diff --cached "$@" "$base" --
  exit
fi
if [ -z "$copied" ] && [ -s "$place/chosen" ] && ! enter < "$place/chosen"; then
  # Files that cannot be read stay as they were: then it ends with 1.
  git add --update --ignore-errors || [ $? -eq 1 ]
  tail -c "+$((length + 1))" "$place/chosen" | xargs -0 sh -c '
    for file; do if [ -L "$file" ] || { [ -f "$file" ] && [ -r "$file" ]; }; then printf "%s\\0" "$file"; fi; done
  ' sh > "$place/readable"
  enter < "$place/readable"
fi
made=$(git write-tree)
echo "$made"
case " $known " in *" $made "*) exit ;; esac
[ -z "$own" ] || known=$(printf '%s\\n' $known | git cat-file --batch-check='%(objectname) %(objecttype)' | sed -n 's/ tree$//p')
{ echo "$made"; printf '^%s^{tree}\\n' "$base" $known; } | git pack-objects --revs --stdout --quiet --window=0

# Some thousands of files in all: what is in one of 256 folders tells.
[ "$store" != "$objects" ] && [ "$(ls "$store/17" 2> /dev/null | wc -l)" -gt 27 ] || exit 0
(cd "$store" && find ?? -type f | tr -d /) | git pack-objects --quiet --window=0 --threads=1 "$store/pack/pack" > /dev/null
git prune-packed --quiet
`

/** Beside what every git of ours goes by. What is written there is thrown away, or read anew by the host. */
const BOX_CONFIG = [
  ...CONFIG,
  "core.fsync=none",
  "core.compression=1",
  "core.bigFileThreshold=16m",
  // A file counts as unchanged only if its size, times, owner and number are those of the index: git reads any other.
  "core.checkStat=default",
  "core.trustctime=true"
]

export const BOX_ENVIRONMENT: Readonly<Record<string, string>> = {
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
export const MAXIMUM_BYTES = 16_777_216
const NUL = 0
/** Of an entry of `git status`, before the name: how the index differs from the commit, how the tree does from the index, a space. */
const STATUS_BYTES = 3
const UNCHANGED = 0x20
const NEW = 0x3f
/** A folder of a submodule in which there are files. */
const HELD = 0x21
const DELETED = 0x44
const TAB = 0x09
const LINE_FEED = 0x0a
/** Of the line with its size. */
const INDEX_HEAD_BYTES = 20

/** Of files that are copied to be compared: of others git says that they differ. */
const MAXIMUM_COMPARED_BYTES = 268_435_456

/** Seconds, of a processor and of the clock: enough for 100,000 files of which 20,000 differ. */
export const PATIENCE = { changes: 60, ignored: 20, names: 60, snapshot: 120 }

const IN_BOX = "in the box"

const failed = (what: string, reason: GitFailed["reason"], stderr: string, code: number | null = null) =>
  new GitFailed({ command: `${IN_BOX} (${what})`, reason, code, stderr })

/** The names that come first are given out when the empty one has come that ends them, each with its NUL; then the rest. */
const afterNames = <E1, E2>(names: (names: Buffer) => Effect.Effect<void, E1>, rest: (bytes: Uint8Array) => Effect.Effect<void, E2>) => {
  const begun: Array<Uint8Array> = []
  let size = 0
  let last: number | undefined = NUL
  let told = false
  return Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (told) return yield* rest(bytes)
    const end = last === NUL && bytes[0] === NUL ? 0 : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf("\0\0") + 1 || -1
    last = bytes.at(-1) ?? last
    begun.push(end < 0 ? bytes : bytes.subarray(0, end))
    size += bytes.length
    if (size > MAXIMUM_BYTES) return yield* failed("names", "output", "")
    if (end < 0) return
    told = true
    yield* names(Buffer.concat(begun))
    if (end + 1 < bytes.length) yield* rest(bytes.subarray(end + 1))
  })
}

/** The index that comes first is given out when it is whole, unless there is none; then the rest. */
const afterIndex = <E1, E2>(index: (index: Buffer) => Effect.Effect<void, E1>, rest: (bytes: Uint8Array) => Effect.Effect<void, E2>) => {
  let begun: Array<Uint8Array> | undefined = []
  let size = 0
  let end: number | undefined
  return Effect.fnUntraced(function*(bytes: Uint8Array) {
    if (begun === undefined) return yield* rest(bytes)
    begun.push(bytes)
    size += bytes.length
    if (end === undefined) {
      const head = Buffer.concat(begun)
      const line = head.indexOf(LINE_FEED)
      if (line < 0 && size > INDEX_HEAD_BYTES) return yield* failed("index", "output", "")
      if (line < 0) return
      const length = Number(head.subarray(0, line).toString("latin1"))
      if (!(length <= MAXIMUM_INDEX_BYTES)) return yield* failed("index", "output", "")
      end = line + 1 + length
    }
    if (size < end) return
    const all = Buffer.concat(begun)
    begun = undefined
    const told = all.subarray(all.indexOf(LINE_FEED) + 1, end)
    if (told.length > 0) yield* index(told)
    if (end < all.length) yield* rest(all.subarray(end))
  })
}

/** The names of files that differ, of new ones, and of folders of submodules with files, of what `git status` and we say. */
const sorted = Effect.fnUntraced(function*(entries: Buffer) {
  const [changed, added, submodules]: [Array<Change>, Array<Buffer>, Array<Buffer>] = [[], [], []]
  yield* inPieces(eachField(entries), (entry) => {
    const path = entry.subarray(STATUS_BYTES)
    if (entry[1] === HELD) submodules.push(path)
    else if (entry[1] === NEW) added.push(path)
    else if (entry[1] !== UNCHANGED) changed.push({ path, mayBeRepository: entry[1] !== DELETED })
  })
  return { added, changed, submodules }
})

/** It is told nothing before it says what it finds. */
const NOTHING = Effect.succeed({ found: undefined, input: Buffer.alloc(0) })

/** Whether it is git in a box that failed with this: what its disk refuses is not ours. */
export const isOfBox = (defect: unknown): boolean => defect instanceof GitFailed && defect.command.startsWith(IN_BOX)

export type BoxGit = ReturnType<typeof make>

/** The sandbox may be at rest. */
export const make = (host: SandboxHost["Service"], sandboxId: SandboxId) => {
  // Boxes have a `/tmp` for each process tree; without isolation nothing is hidden anyway.
  const isBare = host.isolation === "none"
  const hidden = isBare ? "" : "/tmp"

  /** `listen` gets what it says, and `answer`, which ends the input. Fails when that fails, git does, or it takes too long. */
  const talk = Effect.fnUntraced(function*<A, E, E2, R>(
    repository: HostRepository,
    what: keyof typeof PATIENCE,
    { before, copied, isAll = false, listen, options = [], take = false }: {
      /** Whether it is to tell what it learned of files. */
      readonly take?: boolean
      readonly options?: ReadonlyArray<string>
      /** The folder with the copies. */
      readonly copied?: string
      readonly listen: (bytes: Uint8Array, answer: (input: Buffer) => Effect.Effect<void>) => Effect.Effect<void, E>
      /** The first that it is told, found out while the box is made. */
      readonly before: Effect.Effect<{ readonly found: A; readonly input: Buffer }, E2, R>
      /** Whether that is all that it is told. */
      readonly isAll?: boolean
    }
  ) {
    return yield* Effect.gen(function*() {
      const told = Effect.mapError<HostError, GitFailed>(({ detail, retryable }) => failed(what, retryable ? "lost" : "exit", detail))
      const { gitDir, isOwn } = repository.tree.inBox
      const start = Effect.gen(function*() {
        const box = yield* host.visit({ sandboxId })
        return yield* box.spawn({
          command: "sh",
          args: ["-c", SCRIPT, "slipway-git", what, `${PATIENCE[what]}`, hidden, copied ?? join(box.workspace, repository.folder),
            repository.baseSha, isOwn ? "own" : "", copied === undefined ? "" : "copied", take ? "take" : "", ...options],
          env: { ...BOX_ENVIRONMENT, GIT_DIR: gitDir },
          seesRepositories: true,
          isOffline: true
        })
      })
      const [process, { found, input }] = yield* Effect.all([told(start), before], { concurrency: 2 })
      if (input.length > 0) yield* process.write(input)
      if (isAll) yield* process.endInput
      const answer = (bytes: Buffer) => Effect.andThen(process.write(bytes), process.endInput)
      yield* Stream.runForEach(process.stdout, (bytes) => listen(bytes, answer))
      const { code } = yield* process.exited
      if (code !== 0) return yield* failed(what, code === null ? "lost" : "exit", (yield* process.stderrTail).slice(-4_000), code)
      return found
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

  /** Whether the index gains by what this look learns, and what keeps that. */
  const indexOf = Effect.fnUntraced(function*(repository: HostRepository, isSaved: boolean) {
    const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1_000)
    // One in a machine is not ours.
    const take = !repository.tree.inBox.isOwn && (yield* IndexStats.isWanted(repository, seconds, isSaved))
    return { take, keep: (told: Buffer) => IndexStats.keep(repository, told, seconds) }
  })

  /** All that differs, as git says, in a folder of ours: `choose` tells which of the new files. Answers the folder, and what is in it. */
  const copies = Effect.fnUntraced(function*<E>(
    repository: HostRepository,
    copy: NonNullable<Tree["copy"]>,
    choose: (names: ReadonlyArray<Buffer>) => Effect.Effect<ReadonlyArray<Buffer>, E>,
    limits: CopyLimits
  ) {
    let names: Buffer = Buffer.alloc(0)
    const { keep, take } = yield* indexOf(repository, limits.beyond === "fail")
    const listen = afterNames((all) => Effect.sync(() => void (names = all)), afterIndex(keep, () => Effect.void))
    yield* talk(repository, "names", { before: NOTHING, isAll: true, listen, take })
    const { added, changed, submodules } = yield* sorted(names)
    const chosen: ReadonlyArray<Change> = [
      ...changed,
      ...(yield* choose(added)).map((path) => ({ path, mayBeRepository: false }))
    ]
    const place = yield* scratch(repository)
    yield* Effect.promise(() => mkdir(place, { mode: 0o700 }))
    const { copied, gone } = yield* Effect.mapError(copy(chosen, place, limits), () => failed("names", "output", ""))
    const nothing = Buffer.from(`0 ${"0".repeat(repository.baseSha.length)}\t`)
    const removed = terminated(gone.map((path) => Buffer.concat([nothing, path])))
    return { place, submodules, input: Buffer.concat([Buffer.from(`${removed.length}\n`), removed, terminated(copied)]) }
  })

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
    const { copy } = repository.tree
    if (copy !== undefined && isBare) {
      const choose = (names: ReadonlyArray<Buffer>) =>
        Effect.map(enter(terminated(names)), (lines) => Array.from(eachField(lines), (line) => line.subarray(line.indexOf(TAB) + 1)))
      const { input, place } = yield* copies(repository, copy, choose, { maximumBytes: MAXIMUM_COMPARED_BYTES, beyond: "stand-in" })
      const before = Effect.succeed({ found: undefined, input })
      yield* talk(repository, "changes", { options, before, copied: place, isAll: true, listen: said.add })
      return said.all()
    }
    let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
    const { keep, take } = yield* indexOf(repository, false)
    const listen = afterNames((names) => Effect.flatMap(enter(names), (lines) => reply(lines)), afterIndex(keep, said.add))
    yield* talk(repository, "changes", {
      options,
      take,
      before: NOTHING,
      listen: (bytes, answer) => {
        reply = answer
        return listen(bytes)
      }
    })
    return said.all()
  }, Effect.scoped)

  /** Which of these lines of `update-index --index-info` name files that the tree's own rules ignore. */
  const ignored = Effect.fnUntraced(function*(repository: HostRepository, entries: Buffer) {
    const said = collecting("ignored")
    yield* talk(repository, "ignored", { before: Effect.succeed({ found: undefined, input: entries }), isAll: true, listen: said.add })
    return said.all()
  })

  /**
   * The tree as it is, in `take`: its id and a line feed, then a pack of what is neither in the commit it started from nor
   * in what `known` names. Of new files only those that `choose` names. It is looked at when `before` is through, which is
   * done while the box is made.
   */
  const snapshot = Effect.fnUntraced(
    function*<A, E, E2, R>(repository: HostRepository, { before, choose, hold = () => {}, known, maximumBytes, take }: {
      readonly before: Effect.Effect<A, E2, R>
      readonly known: (found: A) => ReadonlyArray<string>
      readonly choose: (names: ReadonlyArray<Buffer>) => Effect.Effect<ReadonlyArray<Buffer>>
      /** Of the files that differ. */
      readonly maximumBytes: number
      readonly take: (bytes: Uint8Array) => Effect.Effect<void, E>
      /** Is told of folders of submodules in which there are files: none of these is in the snapshot. */
      readonly hold?: (folders: ReadonlyArray<Buffer>) => void
    }) {
      const knownLine = (found: A) => Buffer.from(`${known(found).join(" ")}\n`)
      const { copy } = repository.tree
      if (copy !== undefined && isBare) {
        const found = yield* before
        const { input: told, place, submodules } = yield* copies(repository, copy, choose, { maximumBytes, beyond: "fail" })
        hold(submodules)
        const input = Buffer.concat([knownLine(found), told])
        return yield* talk(repository, "snapshot", { before: Effect.succeed({ found, input }), copied: place, isAll: true, listen: take })
      }
      let reply: (input: Buffer) => Effect.Effect<void> = () => Effect.void
      const index = yield* indexOf(repository, true)
      const listen = afterNames(
        Effect.fnUntraced(function*(entries) {
          const { added, changed, submodules } = yield* sorted(entries)
          hold(submodules)
          const names = terminated(changed.map(({ path }) => path))
          yield* reply(Buffer.concat([Buffer.from(`${names.length}\n`), names, terminated(yield* choose(added))]))
        }),
        afterIndex(index.keep, take)
      )
      return yield* talk(repository, "snapshot", {
        take: index.take,
        before: Effect.map(before, (found) => ({ found, input: knownLine(found) })),
        listen: (bytes, answer) => {
          reply = answer
          return listen(bytes)
        }
      })
    },
    Effect.scoped
  )

  return { changes, ignored, snapshot }
}
