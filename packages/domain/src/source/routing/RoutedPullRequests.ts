/** `PullRequests` over several hosts: for those without pages of their own. */
import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { PullRequestRefused, type PullRequestsShape } from "../ports/PullRequests.ts"
import type { SourceHostError } from "../ports/SourceHost.ts"
import type { RepoName } from "../schema/RepoRef.ts"
import type { HostRoutes } from "./HostRoutes.ts"

/** `null`: each host has pages of its own. */
export const make = ({ hosts, place }: HostRoutes): PullRequestsShape | null => {
  if (hosts.every(({ pulls }) => pulls === null)) return null

  const at = <A>(
    repo: RepoName,
    use: (pulls: PullRequestsShape, path: RepoName) => Effect.Effect<A, PullRequestRefused | SourceHostError | StoreUnavailable>
  ) =>
    Effect.gen(function*() {
      const unknown = (detail: string) => new PullRequestRefused({ repo, number: null, reason: "unknown repository", detail })
      const { host, path } = yield* Effect.catchTag(place(repo), "RepoNotAccessible", ({ message }) => Effect.fail(unknown(message)))
      return host.pulls === null ? yield* unknown(`Its pull requests are at ${host.name}.`) : yield* use(host.pulls, path)
    })

  return {
    diff: (repo, number) => at(repo, (pulls, path) => pulls.diff(path, number)),
    content: (repo, number) => at(repo, (pulls, path) => pulls.content(path, number)),
    merge: (repo, number, options) => at(repo, (pulls, path) => pulls.merge(path, number, options)),
    review: (repo, number, review) => at(repo, (pulls, path) => pulls.review(path, number, review)),
    close: (repo, number) => at(repo, (pulls, path) => pulls.close(path, number))
  }
}
