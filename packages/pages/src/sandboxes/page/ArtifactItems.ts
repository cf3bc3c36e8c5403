/** The files that an agent left for people, as the page of their sandbox and their own page list them (docs/decisions/32). */
import { SHOWN_TYPES } from "@slipway/domain/files/rules/Artifact"
import type { Artifact, ArtifactList } from "@slipway/domain/files/schema/Artifact"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { html, type Html } from "../../html/Html.ts"
import { moment } from "../../html/Moments.ts"

type Place = "artifacts" | "artifacts/download" | "artifacts/media"

export const addressOf = (id: SandboxId, place: Place, { name }: Pick<Artifact, "name">): string =>
  `/sandboxes/${id}/${place}?${new URLSearchParams({ name })}`

/** Bytes, as people read them. */
export const sizeOf = (bytes: number): string =>
  bytes < 1024 ? `${bytes} B` : bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`

/** Whether the bytes of a page's media are of this type. Text is part of the page itself. */
export const isMedia = (mediaType: string): boolean => SHOWN_TYPES.has(mediaType) && !mediaType.startsWith("text/")

/** The image or video itself; `false`: a browser shows none of it. A video is loaded when a person plays it. */
export const media = (id: SandboxId, artifact: Artifact): Html | false => {
  const { mediaType, name } = artifact
  if (!isMedia(mediaType)) return false
  const address = addressOf(id, "artifacts/media", artifact)
  return mediaType.startsWith("video/")
    ? html`<p><video class="picture" src="${address}" controls preload="none" aria-label="The video ${name}"></video></p>`
    : html`<p><img class="picture" src="${address}" loading="lazy" alt="The picture ${name}"></p>`
}

/** Size, time, and the link that saves it. */
export const about = (id: SandboxId, artifact: Artifact): Html =>
  html`<span class="fine">${sizeOf(artifact.size)}, ${moment(artifact.createdAt)}</span>
<a class="button quiet" href="${addressOf(id, "artifacts/download", artifact)}">Download<span class="unseen"> ${artifact.name}</span></a>`

const item = (id: SandboxId, artifact: Artifact): Html => {
  const { mediaType, name } = artifact
  const isShown = SHOWN_TYPES.has(mediaType)
  const link = isShown ? html`<a href="${addressOf(id, "artifacts", artifact)}">${name}</a>` : html`<span>${name}</span>`
  return html`<li><span class="artifact-name">${link}</span> ${about(id, artifact)}
${media(id, artifact)}</li>
`
}

const NONE = html`<p class="fine">No artifacts. An agent leaves files for you in <code>$SLIPWAY_ARTIFACTS</code>; they are here when its
turn has ended.</p>`

/** `list`: at most 50. */
export const render = (id: SandboxId, { data, leftOut }: ArtifactList): Html =>
  html`<div id="artifacts" data-piece="artifacts">
${leftOut !== null && html`<p class="warning">${leftOut}</p>`}
${data.length === 0 && NONE}
${data.length > 0 && html`<ul class="checkpoints artifacts">${data.map((artifact) => item(id, artifact))}</ul>`}
</div>`
