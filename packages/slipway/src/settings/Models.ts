/** The models and their budgets. */
import { Usd } from "@slipway/domain/models/schema/Budget"
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

/** In memory: micro-USD. */
const usd: Type.Type<number> = { expected: "US dollars such as 12.50", schema: Usd }

export const settings = {
  modelsFile: Setting.optional({
    name: "SLIPWAY_MODELS",
    type: Type.file,
    about: "File with the models that sandboxes may use; see slipway models. Without it, a built-in list.",
    role: "all"
  }),
  modelAddresses: Setting.withDefault({
    name: "SLIPWAY_MODEL_ADDRESSES",
    type: Type.oneOf(["refuse", "allow"]),
    default: "refuse",
    about: "Whether agents may name images and documents to their model by address: refuse or allow. The provider fetches them, " +
      "so with allow a sandbox without a network can send data out. Data URLs always work.",
    role: "worker"
  }),
  sandboxBudget: Setting.optional({
    name: "SLIPWAY_SANDBOX_BUDGET_USD",
    type: usd,
    about: "Cost limit of one sandbox's models, in US dollars. Without it, none.",
    role: "all"
  }),
  grantBudget: Setting.optional({
    name: "SLIPWAY_GRANT_BUDGET_USD",
    type: usd,
    about: "Cost limit of the models of a grant's sandboxes, in US dollars, unless slipway grants budget sets another. Without it, " +
      "none.",
    role: "all"
  }),
  credits: Setting.withDefault({
    name: "SLIPWAY_CREDITS",
    type: Type.oneOf(["off", "enforced"]),
    default: "off",
    about: "Whether models draw on an organization's credits from claims, and new work without credits gets 402: off or " +
      "enforced. The same in every process.",
    role: "all"
  }),
  creditPrice: Setting.withDefault({
    name: "SLIPWAY_CREDIT_MICRO_USD",
    type: Type.integer(1, 999_999_999),
    default: "10000",
    about: "Model cost of one credit, in millionths of a US dollar, with SLIPWAY_CREDITS=enforced.",
    role: "all"
  })
}

/** `creditPrice` is in micro-USD; `null`: credits are not enforced. */
export const load = Effect.map(
  Setting.values(settings),
  ({ creditPrice, credits, ...loaded }) => ({ ...loaded, creditPrice: credits === "enforced" ? creditPrice : null })
)
