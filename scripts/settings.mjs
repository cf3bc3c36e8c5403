/** What scripts/reference.mjs was called when settings were all that it wrote. */
import "./reference.mjs"
