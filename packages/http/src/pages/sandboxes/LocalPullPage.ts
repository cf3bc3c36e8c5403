/** `/local/:owner/:name/pulls/:number`: a pull request of a repository on this machine, for those whose sandbox it is of. */
import { principalOf } from "@slipway/domain/access/Session"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import { type PullRequest, sandboxOf } from "@slipway/domain/source/PullRequest"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { SourceHost } from "@slipway/domain/source/SourceHost"
import { Effect, Schema } from "effect"
import { HttpRouter } from "effect/http"
import { html, type Html } from "../Html.ts"
import { moment } from "../Moments.ts"
import * as Page from "../Page.ts"
import { Refused } from "../Refused.ts"

const decodeRepo = Schema.decodeUnknownOption(RepoName)

const noPull = Refused.notFound("There is no such pull request.")

const stateOf = ({ draft, merged, state }: PullRequest): Html =>
  merged
    ? html`<span class="state good">Merged</span>`
    : state === "closed"
    ? html`<span class="state bad">Closed</span>`
    : draft
    ? html`<span class="state wait">Draft</span>`
    : html`<span class="state good">Open</span>`

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const sandboxes = yield* Sandboxes
  const host = yield* SourceHost
  // Pull requests of any other host have a page there.
  if (host.name !== "local") return

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(
    function*(member, { params }) {
      const repo = yield* Effect.mapError(Effect.fromOption(decodeRepo(`${params["owner"]}/${params["name"]}`)), () => noPull)
      const number = params["number"] ?? ""
      if (!/^[1-9]\d{0,8}$/u.test(number)) return yield* noPull
      const { pullRequest } = yield* host.pullRequestDetails(repo, Number(number))
      // Whose branch it is knows of it; to anybody else it is not there.
      const id = sandboxOf(pullRequest.headRef)
      if (id === undefined) return yield* noPull
      const sandbox = yield* sandboxes.get(principalOf(member.visit), id)
      const { additions, baseRef, changedFiles, createdAt, deletions, headRef, state, title, updatedAt } = pullRequest
      const changed = changedFiles === 1 ? "1 file" : `${changedFiles} files`
      const commands = html`<p>On the machine of the service it can be looked at, merged and closed:</p>
<pre tabindex="0"><code>slipway pulls show ${repo} ${number}
slipway pulls diff ${repo} ${number}
slipway pulls merge ${repo} ${number}
slipway pulls close ${repo} ${number}</code></pre>`
      const body = html`<p class="fine"><a href="/sandboxes">Sandboxes</a> / <a href="/sandboxes/${id}">${sandbox.title}</a></p>
<h1>${title} <span class="fine">#${number}</span></h1>
<dl class="facts">
<dt>State</dt><dd>${stateOf(pullRequest)}</dd>
<dt>Repository</dt><dd>${repo}</dd>
<dt>Branches</dt><dd><code>${headRef}</code> into <code>${baseRef}</code></dd>
<dt>Changes</dt><dd>${changed}, <span class="added-count">+${additions}</span> <span class="removed-count">−${deletions}</span></dd>
<dt>Opened</dt><dd>${moment(createdAt)}</dd>
<dt>Changed</dt><dd>${moment(updatedAt)}</dd>
</dl>
<p>Opened by Slipway from the sandbox <a href="/sandboxes/${id}">${sandbox.title}</a>.</p>
${state === "open" && commands}`
      return Page.show({ title: `${title} #${number}`, place: "sandboxes", body }, member)
    },
    Effect.catchTags({
      SandboxNotFound: () => Effect.fail(noPull),
      RepoNotAccessible: () => Effect.fail(noPull),
      SourceHostError: ({ detail, retryable }) =>
        Effect.fail(retryable ? new Refused({ status: 502, title: "Not now", text: detail }) : noPull)
    })
  )

  yield* members("/local/:owner/:name/pulls/:number", { GET: get })
}))
