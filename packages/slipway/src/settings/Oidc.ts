/** Sign-in at a provider of OpenID Connect. */
import type { EntryRules, GroupRole } from "@slipway/domain/access/rules/Entry"
import { Role } from "@slipway/domain/access/schema/User"
import * as AllowList from "@slipway/machine/egress/AllowList"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

const isIssuer = (text: string) => {
  if (!Schema.is(Type.webAddress.schema)(text)) return false
  const { hostname, protocol } = new URL(text)
  return protocol === "https:" || ["127.0.0.1", "[::1]", "localhost"].includes(hostname)
}

const EMAIL_DOMAIN = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/u

const isRole = Schema.is(Role)

/** `engineering=member`: the group is all before the last equals sign. */
const groupRoleOf = (item: string): GroupRole | null => {
  const at = item.lastIndexOf("=")
  const role = item.slice(at + 1)
  return at > 0 && isRole(role) ? { group: item.slice(0, at), role } : null
}

const roles: Type.Type<ReadonlyArray<string>> = Type.list(
  `groups and roles (${Role.literals.join(", ")}) between commas, such as platform=owner,engineering=member`,
  (item) => groupRoleOf(item) !== null
)

/** A claim's name and value: all before the first equals sign, and after it. */
const claim: Type.Type<NonNullable<EntryRules["claim"]>> = {
  expected: "the name of a claim and its value, such as hd=example.com",
  schema: Schema.String.check(Schema.isPattern(/^[^=\s]{1,200}=.{1,1000}$/u)).pipe(
    Schema.decodeTo(
      Schema.Struct({ name: Schema.String, value: Schema.String }),
      SchemaTransformation.transform({
        decode: (text) => ({ name: text.slice(0, text.indexOf("=")), value: text.slice(text.indexOf("=") + 1) }),
        encode: ({ name, value }) => `${name}=${value}`
      })
    )
  )
}

/** The client at the provider. */
export const client = {
  issuer: Setting.optional({
    name: "SLIPWAY_OIDC_ISSUER",
    type: Type.parsed("the https address of a provider of OpenID Connect", isIssuer),
    about: "Provider of OpenID Connect for signing in; its metadata are below it at /.well-known/openid-configuration. " +
      "Without it, no sign-in with OpenID Connect.",
    role: "http"
  }),
  clientId: Setting.optional({
    name: "SLIPWAY_OIDC_CLIENT_ID",
    type: Type.pattern("a client id", /^[\x21-\x7e]{1,200}$/u),
    about: "Id of this service's client at that provider.",
    role: "http"
  }),
  clientSecretFile: Setting.optional({
    name: "SLIPWAY_OIDC_CLIENT_SECRET_FILE",
    type: Type.file,
    about: "File with the secret of that client, and nothing else.",
    role: "http"
  })
}

/** Names, and who may enter. */
export const entry = {
  name: Setting.optional({
    name: "SLIPWAY_OIDC_NAME",
    type: Type.pattern("a name of up to 40 characters", /^[^\p{C}\s](?:[^\p{C}]{0,38}[^\p{C}\s])?$/u),
    about: "Name of the provider on the sign-in page. Without it, the provider's host.",
    role: "http"
  }),
  scopes: Setting.withDefault({
    name: "SLIPWAY_OIDC_SCOPES",
    type: Type.pattern("scopes with spaces between them, openid first", /^openid(?: [\x21-\x7e]{1,200}){0,20}$/u),
    default: "openid email profile",
    about: "Scopes that are asked of the provider. Some providers tell groups only with one more.",
    role: "http"
  }),
  emailDomains: Setting.withDefault({
    name: "SLIPWAY_OIDC_EMAIL_DOMAINS",
    type: Type.list("domains in lower case between commas, such as example.com,example.org", (item) => EMAIL_DOMAIN.test(item)),
    default: "",
    about: "Only people with a verified e-mail address in one of these domains may sign in. Without it, people with any address or none.",
    role: "http"
  }),
  claim: Setting.optional({
    name: "SLIPWAY_OIDC_CLAIM",
    type: claim,
    about: "Only people with this claim may sign in; a claim that is a list has to contain the value.",
    role: "http"
  }),
  groupsClaim: Setting.withDefault({
    name: "SLIPWAY_OIDC_GROUPS_CLAIM",
    type: Type.pattern("the name of a claim", /^[^=\s]{1,200}$/u),
    default: "groups",
    about: "The claim with a person's groups.",
    role: "http"
  }),
  roles: Setting.withDefault({
    name: "SLIPWAY_OIDC_ROLES",
    type: roles,
    default: "",
    about: "The roles of groups in the owner's organization, given at each sign-in; people in none of the groups may not sign in. " +
      "Without it, an administrator approves people and adds them.",
    role: "http"
  }),
  session: Setting.withDefault({
    name: "SLIPWAY_OIDC_SESSION_HOURS",
    type: Type.hours(1, 336),
    default: "12",
    about: "How long after a sign-in with OpenID Connect the person has to sign in again, so that the provider can refuse.",
    role: "http"
  })
}

/** Issuers of the tokens that CIs exchange for keys. */
export const ci = {
  ciPrivate: Setting.optional({
    name: "SLIPWAY_CI_PRIVATE",
    type: Type.parsed(
      "names with ports between commas, such as gitlab.internal:443",
      (value) => Result.isSuccess(AllowList.parse(value))
    ),
    about: "Issuers of CI tokens that may use http or have private addresses, such as gitlab.internal:443. " +
      "Without it, issuers need https and public addresses.",
    role: "http"
  })
}

export const loadCi = Effect.map(Setting.values(ci), ({ ciPrivate }) => ({
  ciPrivate: Result.getOrElse(AllowList.parse(ciPrivate ?? ""), (): AllowList.AllowList => new Set())
}))

/** `null`: no sign-in with OpenID Connect. The settings of the client are required together. */
export const load = Effect.gen(function*() {
  const { clientId, clientSecretFile, issuer } = yield* Setting.values(client)
  const { claim, emailDomains, groupsClaim, name, roles, scopes, session } = yield* Setting.values(entry)
  if (issuer === null) {
    for (const setting of [...Object.values(client), ...Object.values(entry)]) {
      if (yield* Setting.isSet(setting)) {
        return yield* new Setting.InvalidSetting({ setting: client.issuer.name, expected: `set when ${setting.name} is` })
      }
    }
    return null
  }
  if (clientId === null || clientSecretFile === null) {
    const lacking = clientId === null ? client.clientId : client.clientSecretFile
    return yield* new Setting.InvalidSetting({ setting: lacking.name, expected: `set when ${client.issuer.name} is` })
  }
  const rules: EntryRules = { emailDomains, claim, groupsClaim, roles: roles.flatMap((item) => groupRoleOf(item) ?? []) }
  return { issuer, clientId, clientSecretFile, name, scopes, rules, session }
})
