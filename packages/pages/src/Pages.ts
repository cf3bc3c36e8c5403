/** Every page for people. */
import { Effect, Layer } from "effect"
import * as Assets from "./assets/Assets.ts"
import * as AutomationsPages from "./automations/AutomationsPages.ts"
import * as KeysPage from "./keys/KeysPage.ts"
import * as Page from "./layout/Page.ts"
import * as McpServersPages from "./mcp/McpServersPages.ts"
import * as ModelsPage from "./models/ModelsPage.ts"
import * as DeviceEndpoints from "./people/DeviceEndpoints.ts"
import * as DevicePage from "./people/DevicePage.ts"
import * as HomePage from "./people/HomePage.ts"
import * as SignInPages from "./people/SignInPages.ts"
import * as TokenExchange from "./people/TokenExchange.ts"
import * as PullList from "./pulls/PullList.ts"
import * as PullPage from "./pulls/PullPage.ts"
import * as RepositoriesPage from "./repositories/RepositoriesPage.ts"
import * as RepositorySettingsPage from "./repositories/RepositorySettingsPage.ts"
import * as SandboxesPages from "./sandboxes/SandboxesPages.ts"
import * as SecretsPages from "./secrets/SecretsPages.ts"
import * as AccountPage from "./settings/AccountPage.ts"
import * as AuditPage from "./settings/AuditPage.ts"
import * as MembersPage from "./settings/MembersPage.ts"
import { Rail } from "./shared/Rail.ts"
import * as UsagePage from "./usage/UsagePage.ts"
import * as WebhooksPages from "./webhooks/WebhooksPages.ts"

const routes = Layer.mergeAll(
  Assets.layer,
  HomePage.layer,
  SignInPages.layer,
  DeviceEndpoints.layer,
  TokenExchange.layer,
  DevicePage.layer,
  KeysPage.layer,
  ModelsPage.layer,
  SandboxesPages.layer,
  PullList.layer,
  PullPage.layer,
  AccountPage.layer,
  MembersPage.layer,
  RepositoriesPage.layer,
  RepositorySettingsPage.layer,
  AuditPage.layer,
  UsagePage.layer,
  SecretsPages.layer,
  McpServersPages.layer,
  WebhooksPages.layer,
  AutomationsPages.layer
).pipe(Layer.provide(Rail.layer))

/** For `Server.layer` and `Embed.make` of `@slipway/http`. */
export const pages = { routes, notFound: Effect.flatMap(Layer.build(Rail.layer), (rail) => Effect.provide(Page.notFound, rail)) }
