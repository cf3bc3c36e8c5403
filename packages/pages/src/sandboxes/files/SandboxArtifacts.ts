/**
 * `/sandboxes/:id/artifacts`: the files that the agent left for people. They are hostile: a browser gets text that we escaped, an image or
 * a video whose first bytes are those of its type, or a file to save.
 */
import { principalOf } from "@slipway/domain/access/rules/Session"
import type { Principal } from "@slipway/domain/access/schema/Principal"
import { Artifacts, type OpenArtifact } from "@slipway/domain/files/usecases/Artifacts"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { LiveResponses } from "@slipway/http/server/connection/LiveResponses"
import * as Wire from "@slipway/http/server/connection/Wire"
import * as ArtifactReply from "@slipway/http/server/reply/ArtifactReply"
import { respond } from "@slipway/http/server/reply/Respond"
import { Effect, Stream } from "effect"
import { HttpServerRequest } from "effect/http"
import { html, type Part } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import * as ArtifactItems from "../page/ArtifactItems.ts"
import { breadcrumb, idOf, noSandbox } from "../page/SandboxPage.ts"
import * as FilesAddress from "./FilesAddress.ts"
import { text } from "./SandboxFiles.ts"

/** Bytes of a text that a page reads. */
const MAX_TEXT_BYTES = 2 ** 20

const noArtifact = Refused.notFound("This artifact is not kept.")

const told = {
  ArtifactNotFound: () => Effect.fail(noArtifact),
  SandboxNotFound: () => Effect.fail(noSandbox)
}

/** The text as far as a page shows it. */
const textOf = Effect.fnUntraced(function*({ artifact: { size }, read }: OpenArtifact) {
  const parts = yield* Stream.runCollect(read({ start: 0, end: Math.min(size, MAX_TEXT_BYTES) }))
  // `stream`: the bytes may end within a character.
  return new TextDecoder().decode(Buffer.concat(parts), { stream: true })
}, Effect.catchTag("BlobNotFound", () => Effect.fail(noArtifact)))

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const artifacts = yield* Artifacts
  const live = yield* LiveResponses

  const sandboxOf = Effect.fnUntraced(function*(by: Principal, asked: Page.Asked) {
    return yield* Effect.catchTags(sandboxes.get(by, yield* idOf(asked)), { SandboxNotFound: told.SandboxNotFound })
  })

  const openOf = Effect.fnUntraced(function*(by: Principal, asked: Page.Asked) {
    return yield* artifacts.open(by, yield* idOf(asked), asked.url.searchParams.get("name") ?? "")
  }, Effect.catchTags(told))

  /** One artifact: text as a page has it, an image or a video. */
  const shownOf = Effect.fnUntraced(function*(by: Principal, asked: Page.Asked) {
    const opened = yield* openOf(by, asked)
    const { artifact } = opened
    const id = yield* idOf(asked)
    const about = html`<p class="actions">${ArtifactItems.about(id, artifact)}</p>`
    if (artifact.mediaType === "text/plain") {
      const start = yield* FilesAddress.afterOf(asked.url)
      const address = ArtifactItems.addressOf(id, "artifacts", artifact)
      const whole = text(artifact.name, yield* textOf(opened), { after: start, linkTo: (after) => `${address}&after=${after}` })
      const cut = artifact.size > MAX_TEXT_BYTES && html`<p class="warning">Only the first MiB can be shown.</p>`
      return html`${about}
${artifact.size === 0 ? html`<p>The file is empty.</p>` : html`${whole}`}
${cut}` as Part
    }
    return html`${about}
${ArtifactItems.media(id, artifact) || html`<p>This file can only be downloaded.</p>`}`
  })

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const by = principalOf(member.visit)
    const sandbox = yield* sandboxOf(by, asked)
    const { id } = sandbox
    const name = asked.url.searchParams.get("name")
    const list = Effect.map(
      Effect.catchTags(artifacts.list(by, id), { SandboxNotFound: told.SandboxNotFound }),
      (found) => ArtifactItems.render(id, found)
    )
    const content = name === null ? yield* list : yield* shownOf(by, asked)
    const body = html`${breadcrumb(sandbox)}
<h1>${name ?? "Artifacts"}</h1>
${name !== null && html`<p><a href="/sandboxes/${id}/artifacts">All artifacts</a></p>`}
${content}`
    return Page.show({ title: `Artifacts: ${sandbox.title}`, place: "sandboxes", body }, member)
  })

  const send = (isInline: boolean): Page.Handler<Page.Member> =>
    Effect.fnUntraced(function*(member, asked) {
      const by = principalOf(member.visit)
      const opened = yield* openOf(by, asked)
      const { mediaType } = opened.artifact
      if (isInline && !ArtifactItems.isMedia(mediaType)) return yield* Refused.notFound("This file can't be shown.")
      const request = yield* HttpServerRequest.HttpServerRequest
      yield* live.download(by, Wire.of(request), yield* idOf(asked))
      return ArtifactReply.reply(opened, request.headers, isInline ? mediaType : null)
    }, Effect.catchTag("Refusal", (refusal) => Effect.succeed(respond(refusal))))

  return { get, download: send(false), media: send(true) }
})
