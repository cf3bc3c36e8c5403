/** Publishing of sandboxes' changes, and of their events by webhooks. */
import type { Author } from "@slipway/domain/publishing/rules/Publication"
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  author: Setting.withDefault({
    name: "SLIPWAY_COMMIT_AUTHOR",
    type: Type.pattern("a name and an address, such as Slipway <slipway@example.com>", /^[^<>\n\0]*[^<>\s\0] <[^<>\s\0]+>$/u),
    default: "Slipway <slipway@localhost>",
    about: "Author of published commits.",
    role: "worker"
  }),
  message: Setting.withDefault({
    name: "SLIPWAY_COMMIT_MESSAGE",
    type: Type.text("a text"),
    default: "{title}",
    about: "Message of published commits; {title}, {sandbox} and {repo} are replaced.",
    role: "worker"
  }),
  signingKeyFile: Setting.optional({
    name: "SLIPWAY_COMMIT_SIGNING_KEY_FILE",
    type: Type.file,
    about: "File with an SSH private key without a passphrase, Ed25519 or RSA, which signs published commits. Without it, they are not " +
      "signed.",
    role: "worker"
  })
}

const authorOf = (text: string): Author => {
  const start = text.lastIndexOf(" <")
  return { name: text.slice(0, start), email: text.slice(start + 2, -1) }
}

/** See `CommitMessage` for the message. */
export const load = Effect.map(Setting.values(settings), ({ author, message, signingKeyFile }) => ({
  author: authorOf(author),
  message,
  signingKeyFile
}))

export const webhooks = {
  webhookPrivate: Setting.withDefault({
    name: "SLIPWAY_WEBHOOK_PRIVATE",
    type: Type.flag,
    default: "false",
    about: "Whether webhooks may also go to http and to private addresses. Grants that may register them then reach this network.",
    role: "all"
  })
}

/** The allowed receivers of webhooks. */
export const loadWebhooks = Setting.values(webhooks)
