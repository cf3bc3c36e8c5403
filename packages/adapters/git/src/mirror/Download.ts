/**
 * Downloads one commit into a mirror. A download lands in a repository of its own and is moved to the mirror when it is whole.
 */
import { Duration, Effect, Schema } from "effect"
import { join } from "node:path"
import { git, line } from "../Git.ts"
import type { Transport } from "../Remotes.ts"
import { layOut, replaceFile } from "../RepositoryLayout.ts"
import { bytesText, excessOf, measure, tooManyFiles } from "./CheckoutSize.ts"
import { type Known, KnownFile, knownFile, layOutMirror, movePacks, readShallow, sizeOf } from "./MirrorFiles.ts"
import { landingSite, type OpenMirrors, watchSize } from "./OpenMirrors.ts"

/** Fetches into the repository of a download, within the limits. */
const fetchInto = Effect.fnUntraced(function*(mirrors: OpenMirrors, site: string, sha: string, via: Transport) {
  const { limits, tooMuch } = mirrors
  const env = { GIT_DIR: site }
  const packs = join(site, "objects", "pack")
  const tooLarge = tooMuch(`Fetching it takes more than ${bytesText(limits.fetchBytes)}`, "maximumFetchBytes")
  yield* git([
    "fetch",
    "--quiet",
    "--no-write-fetch-head",
    "--no-tags",
    "--no-auto-maintenance",
    ...mirrors.depth === null ? [] : [`--depth=${mirrors.depth}`],
    ...via.fetchArguments,
    "--end-of-options",
    via.url,
    `${sha}:refs/commits/${sha}`
  ], { ...via.options, env, timeout: limits.fetchTime }).pipe(
    Effect.catchIf(
      (failure) => failure.reason === "timeout",
      () => Effect.fail(tooMuch(`It could not be fetched within ${Duration.toMinutes(limits.fetchTime)} minutes`, "fetchTime"))
    ),
    Effect.raceFirst(watchSize(mirrors, packs, () => tooLarge))
  )
  if ((yield* sizeOf(packs)) > limits.fetchBytes) return yield* Effect.fail(tooLarge)
})

/** Downloads all of `sha` that the mirror lacks. Under the lock of the mirror. */
export const download = Effect.fnUntraced(function*(
  mirrors: OpenMirrors,
  mirror: string,
  sha: string,
  isCommit: boolean,
  via: Transport
) {
  const { limits, tooMuch } = mirrors
  const site = yield* landingSite(mirrors)
  yield* Effect.promise(async () => {
    await layOutMirror(mirror)
    await layOut(site, { head: "ref: refs/heads/none", objects: join(mirror, "objects"), shallow: await readShallow(mirror) })
  })
  const env = { GIT_DIR: site }
  const packs = join(site, "objects", "pack")
  yield* fetchInto(mirrors, site, sha, via)

  // The id may name an annotated tag, a folder or a file.
  const commit = isCommit ? sha : yield* git(["rev-parse", "--verify", "--quiet", `${sha}^{commit}`], { env }).pipe(
    Effect.map(line),
    Effect.catchTag("GitFailed", () => Effect.fail({ detail: `"${sha}" is no commit.`, retryable: false }))
  )
  const measured = yield* measure(site, commit, limits.checkoutFiles)
  if (measured === undefined) return yield* Effect.fail(tooManyFiles(limits, tooMuch))
  const { bytes, files } = measured
  const shallow = yield* Effect.promise(() => readShallow(site))
  const roots = shallow.length === 0 ? [] : line(yield* git(["rev-list", "--max-parents=0", commit], { env })).split("\n")
  const known: Known = { commit, bytes, files, shallow: shallow.filter((id) => roots.includes(id)) }
  const excess = excessOf(known, limits, tooMuch)
  if (excess !== undefined) return yield* Effect.fail(excess)

  const content = yield* Effect.orDie(Schema.encodeEffect(KnownFile)(known))
  yield* Effect.uninterruptible(Effect.promise(async () => {
    await movePacks(packs, join(mirror, "objects", "pack"))
    if (shallow.length > 0) await replaceFile(join(mirror, "shallow"), `${shallow.join("\n")}\n`, site)
    await replaceFile(join(mirror, "refs", "commits", sha), `${sha}\n`, site)
    await replaceFile(knownFile(mirror, sha), content, site)
  }))
  return known
}, Effect.scoped)
