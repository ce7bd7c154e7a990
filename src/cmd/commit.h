// SPDX-License-Identifier: MIT
#ifndef CAIRN_CMD_COMMIT_H
#define CAIRN_CMD_COMMIT_H

// The commit that a tarball was made of. 'git archive' fills it in; in a clone it begins with '$'.
#define COMMIT "$Format:%h of %cs$"

#endif
