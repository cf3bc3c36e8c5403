/** The service's accounts with providers of models, as owners set them up. */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { Upstream } from "./ModelCatalogue.ts"

/** `compatible`: any server with the chat API of OpenAI, such as vLLM, LiteLLM or Ollama. */
export const ProviderName = Schema.Literals(["anthropic", "openai", "xai", "compatible"])
export type ProviderName = typeof ProviderName.Type

/** A key as HTTP headers can hold it. Shorter keys could not be removed from answers. */
export const ProviderKey = Schema.String.check(
  Schema.makeFilter((key: string) => /^[\x21-\x7e]{8,1000}$/u.test(key), { expected: "8 to 1000 visible ASCII characters" })
)

/** The part before `/chat/completions`, `/responses` or `/messages`. */
export const ProviderAddress = Upstream.fields.baseUrl.check(Schema.isMaxLength(500))

/** The name of a model at its provider. */
export const ProviderModel = text(1, 180)

/** The settings of one provider, without its key. */
export interface ModelProvider {
  readonly provider: ProviderName
  /** Whether a key is stored. */
  readonly hasKey: boolean
  /** `null`: the provider's own address. */
  readonly baseUrl: string | null
  /** The name of the chosen model at the provider; `null`: the provider's first model. */
  readonly model: string | null
  /** Whether the chosen model is the one of creations that name none. */
  readonly isDefault: boolean
  readonly setAt: DateTime.Utc
}
