/** The newest commits of branches at the source, brought into the repository of a tree and packed for the agent's own git. */
import type { NewestCommits, PushFailed } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { Effect, Queue, Stream } from "effect"
import { join } from "node:path"
import { type HostRepository, run } from "../tree/HostRepository.ts"
import * as FetchedCommits from "./FetchedCommits.ts"
import * as Push from "./Push.ts"

/** Pieces that wait for their reader. */
const WAITING = 4
/** As long as the box takes them. */
const TIMEOUT = "10 minutes"

/** Git waits for the reader. Nothing is sent as a difference to an object that the pack lacks. */
const packOf = (repository: HostRepository, tips: Iterable<string>): Stream.Stream<Uint8Array, PushFailed> =>
  Stream.callback<Uint8Array, PushFailed>(
    Effect.fnUntraced(function*(queue) {
      const offer = Effect.runPromiseWith(yield* Effect.context<never>())
      yield* run(repository, ["pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset"], {
        input: `${[...tips, `^${repository.baseSha}`].join("\n")}\n`,
        take: (bytes) => offer(Effect.asVoid(Queue.offer(queue, Uint8Array.from(bytes)))),
        timeout: TIMEOUT
      }).pipe(Effect.catchTag("GitFailed", Push.failed(repository)))
      yield* Queue.end(queue)
    }),
    { bufferSize: WAITING, strategy: "suspend" }
  )

/** Missing branches are left out. */
export const read = Effect.fn("NewestCommits.read")(
  function*(repository: HostRepository, fetch: FetchedCommits.Fetch, remote: Remote, branches: ReadonlyArray<string>) {
    const tips = yield* Push.tipsOf(repository, remote, branches)
    yield* FetchedCommits.bring(repository, fetch, remote, tips.values())
    const newest: NewestCommits = {
      tips,
      shallow: yield* Effect.promise(() => FetchedCommits.linesOf(join(repository.gitDir, "shallow"))),
      pack: packOf(repository, tips.values())
    }
    return newest
  },
  (self, { repo }) => Effect.catchTag(self, "GitFailed", (failure) => Push.failed({ repo, gitDir: "" })(failure))
)
