/**
 * The pages of this repository as a site. Files stay where code and tests cite them; the site has them in the folders of a reader. What is
 * no page of it, such as a module, is linked to at the repository.
 */
import { cpSync, existsSync, readFileSync, rmSync, statSync } from "node:fs"
import path from "node:path"
import { defineConfig } from "vitepress"
import { slugOf } from "../../../scripts/slugs.mjs"
import { pagesOfDocs } from "../../../scripts/sources.mjs"

const root = path.resolve(import.meta.dirname, "../../..")
const { description, repository } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"))
const home = repository.url.replace(/^git\+/u, "").replace(/\.git$/u, "")

/** Where pages stand, and what the sidebar calls them. */
const groups = {
  Guide: {
    folder: "guide",
    pages: [
      ["docs/getting-started.md", "Getting started"],
      ["docs/commands.md", "Commands"],
      ["docs/approvals.md", "Approvals"],
      ["docs/environments.md", "Environments"],
      ["docs/previews.md", "Previews"],
      ["docs/artifacts.md", "Artifacts"],
      ["docs/github.md", "GitHub"],
      ["docs/gitlab.md", "GitLab"],
      ["docs/feedback.md", "Feedback"],
      ["docs/automations.md", "Automations"],
      ["docs/mcp-server.md", "MCP server"],
      ["docs/partners.md", "Partners"],
      ["docs/webhooks.md", "Webhooks"]
    ]
  },
  Reference: {
    folder: "reference",
    pages: [
      ["docs/interface.md", "Interface"],
      ["docs/decisions/README.md", "Decisions", "decisions/index.md"],
      ["docs/events.md", "Events"],
      ["docs/errors.md", "Errors"],
      ["docs/settings.md", "Settings"],
      ["docs/cli.md", "The command"],
      ["GLOSSARY.md", "Words", "words.md"]
    ]
  },
  Operating: {
    folder: "operating",
    pages: [
      ["docs/deploy.md", "Deploy"],
      ["docs/operating/README.md", "Operate", "index.md"],
      ["docs/operating/models.md", "Models and money"],
      ["docs/operating/isolation.md", "Isolation"],
      ["docs/operating/machines.md", "Machines elsewhere"],
      ["docs/operating/people.md", "People and partners"],
      ["docs/operating/openid-connect.md", "OpenID Connect"],
      ["docs/operating/ci.md", "Keys for CI"],
      ["docs/operating/proxy.md", "Behind a proxy"],
      ["docs/operating/networks.md", "Company networks"],
      ["docs/operating/database.md", "The database"],
      ["docs/operating/checkpoints.md", "Checkpoints and disks"],
      ["docs/operating/blobs.md", "Files and object stores"],
      ["docs/operating/retention.md", "Deletion and retention"],
      ["docs/operating/secrets.md", "Secrets"],
      ["docs/operating/mcp.md", "MCP servers"],
      ["docs/operating/processes.md", "Many processes"],
      ["docs/operating/observe.md", "Observe"],
      ["docs/capacity.md", "Size"],
      ["docs/backup.md", "Back up"],
      ["docs/upgrade.md", "Upgrade"],
      ["SECURITY.md", "Security", "security.md"]
    ]
  },
  More: {
    folder: "more",
    pages: [
      ["docs/embedding.md", "Embedding"],
      ["docs/architecture.md", "How it is built"],
      ["docs/rules.md", "Rules"],
      ["docs/runner.md", "Runner"],
      ["docs/performance.md", "Performance"],
      ["docs/design.md", "Design"],
      ["docs/contributing.md", "Contributing"],
      ["docs/testing.md", "Testing"],
      ["docs/pictures/README.md", "Pictures", "pictures.md"]
    ]
  }
}

/** The file of a page in the repository, and on the site. */
const places = new Map([
  ["README.md", "index.md"],
  ...Object.values(groups).flatMap(({ folder, pages }) => pages.map(([file, , name]) => [file, `${folder}/${name ?? path.basename(file)}`]))
])

// The index of the decisions leads to their sections, which are not in the sidebar.
for (const file of pagesOfDocs(root).filter((page) => page.startsWith("docs/decisions/") && !places.has(page))) {
  places.set(file, `reference/decisions/${path.basename(file)}`)
}
const forgotten = pagesOfDocs(root).filter((page) => !places.has(page))
if (forgotten.length > 0) throw new Error(`docs/site/.vitepress/config.mjs has no place for ${forgotten.join(", ")}`)

/** The site is made of copies beside its packages, which are looked for from where a page stands. */
const copies = path.join(import.meta.dirname, "cache/pages")
rmSync(copies, { recursive: true, force: true })
for (const [file, place] of places) cpSync(path.join(root, file), path.join(copies, place))
cpSync(path.join(root, "docs/pictures"), path.join(copies, "public/pictures"), { recursive: true, filter: (file) => !file.endsWith(".md") })

const sources = new Map(Array.from(places, ([file, place]) => [path.join(copies, place), file]))

/** Links are written for readers of the repository: they are relative to the file they stand in. */
const linkOf = (from, href) => {
  if (/^(?:[a-z]+:|#|\/)/u.test(href)) return href
  const [to, anchor] = href.split("#")
  const target = path.posix.join(path.posix.dirname(from), to).replace(/\/$/u, "")
  const hash = anchor === undefined ? "" : `#${anchor}`
  if (places.has(target)) return `/${places.get(target)}${hash}`
  if (!existsSync(path.join(root, target))) throw new Error(`${from}: there is no ${target}`)
  return `${home}/${statSync(path.join(root, target)).isDirectory() ? "tree" : "blob"}/HEAD/${target}${hash}`
}

const pictureOf = (from, src) => `/${path.posix.relative("docs", path.posix.join(path.posix.dirname(from), src))}`

export default defineConfig({
  title: "Slipway",
  description,
  lang: "en",
  // An example of a setting names one. Our own links are checked by check.mjs.
  ignoreDeadLinks: "localhostLinks",
  srcDir: path.relative(path.dirname(import.meta.dirname), copies),
  markdown: {
    anchor: { slugify: slugOf },
    config: (md) => {
      md.core.ruler.push("links-of-the-repository", ({ env, tokens }) => {
        const from = sources.get(env.realPath ?? env.path)
        for (const token of from === undefined ? [] : tokens.flatMap(({ children }) => children ?? [])) {
          if (token.type === "link_open") token.attrSet("href", linkOf(from, token.attrGet("href")))
          if (token.type === "image") token.attrSet("src", pictureOf(from, token.attrGet("src")))
        }
      })
    }
  },
  // The repository's tsconfig is for its modules.
  vite: { esbuild: { tsconfigRaw: {} } },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [{ text: "Getting started", link: "/guide/getting-started" }, { text: "Interface", link: "/reference/interface" }, {
      text: "Operating",
      link: "/operating/"
    }],
    sidebar: Object.entries(groups).map(([text, { pages }]) => ({
      text,
      items: pages.map(([file, name]) => ({ text: name, link: `/${places.get(file).replace(/(?:index)?\.md$/u, "")}` }))
    })),
    socialLinks: [{ icon: "github", link: home }]
  }
})
