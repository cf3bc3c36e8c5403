/** Which agents take images of a prompt (docs/decisions/21). Other files are in the box of the sandbox only. */
import * as Data from "effect/Data"
import type { AgentRuntimeName } from "../schema/AgentRuntimeName.ts"
import type { Catalogue, Model } from "../schema/ModelCatalogue.ts"

/** The media types of images that models take. */
export const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

/** Runtime profiles whose prompts may have images. The ACP of grok says that it takes none (1.0.41). */
const seeing: ReadonlySet<string> = new Set(["claude", "codex", "opencode", "offline"])

/** Whether sessions of this runtime profile take images. */
export const profileTakesImages = (profile: string): boolean => seeing.has(profile)

/** The model of the sandbox takes no images. Another model may; without the image, the request works. */
export class FilesUnsupported extends Data.TaggedError("FilesUnsupported")<{ readonly model: string; readonly name: string }> {
  override get message() {
    return `${this.model} takes no images, and ${this.name} is one. Choose another model, or leave the image out.`
  }
}

const takesImages = ({ images, profile }: Pick<Model, "images" | "profile">): boolean => images ?? profileTakesImages(profile)

interface Named {
  readonly name: string
  readonly mediaType: string
}

/** Why the model cannot take these files; `null`: it can. */
export const refusalOfFiles = (
  model: Pick<Model, "id" | "images" | "profile">,
  files: ReadonlyArray<Named>
): FilesUnsupported | null => {
  const image = files.find(({ mediaType }) => IMAGE_TYPES.has(mediaType))
  return image === undefined || takesImages(model) ? null : new FilesUnsupported({ model: model.id, name: image.name })
}

/** The model of a sandbox. A model that is no longer in the catalogue counts by its runtime's own profile. */
export const modelOf = (
  { models }: Catalogue,
  sandbox: { readonly model: string; readonly agentRuntime: AgentRuntimeName }
): Pick<Model, "id" | "images" | "profile"> =>
  models.find(({ id }) => id === sandbox.model) ?? { id: sandbox.model, profile: sandbox.agentRuntime }
