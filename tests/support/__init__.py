"""What several tests share: real servers on loopback, sample repositories, scripted programs."""
