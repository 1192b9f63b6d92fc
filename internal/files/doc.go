// Package files is what both readers of a sandbox's files share: the guest agent inside, and hostfiles, which reads the tree of a
// sandbox that doesn't run. It holds the words for what goes wrong, the way that a page of a directory is made, and the reading of
// /etc/passwd, all of it in bounded memory, since every byte comes from a guest.
//
// It opens nothing itself and knows neither the protocol nor trees. Start reading at failure.go; test/filestest is the suite that
// holds both readers to one behaviour.
package files
