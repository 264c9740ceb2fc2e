"""`python -m disttrain_agent` and the entry of the zip file. Parses under any Python, to say which one it needs."""

import sys

if sys.version_info < (3, 9):  # the image is the user's, not ours
    sys.stderr.write("disttrain-agent: needs Python 3.9 or newer, this is Python %d.%d\n" % sys.version_info[:2])
    sys.exit(64)

from disttrain_agent.main import main

if __name__ == "__main__":
    main()
